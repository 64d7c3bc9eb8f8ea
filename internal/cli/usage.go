package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/fault"
	"trireme/internal/conf"
	"trireme/internal/keys"
)

// usageError rewrites an error of cobra or pflag.
func usageError(cmd *cobra.Command, err error) error {
	var exit *Exit
	if errors.As(err, &exit) {
		return err
	}
	help := cmd.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		return usage(fmt.Sprintf("unknown flag --%s of %s%s", name, cmd.CommandPath(), suggestFlag(cmd, name)), help)
	case errors.As(err, &unknown):
		return usage(fmt.Sprintf("unknown flag -%s of %s%s", unknown.GetSpecifiedShortnames(), cmd.CommandPath(), suggestShort(cmd, unknown.GetSpecifiedShortnames())), help)
	case errors.As(err, &value):
		want := value.Unwrap().Error()
		if w, ok := flagTypes[value.GetFlag().Value.Type()]; ok {
			want = fmt.Sprintf("%q is not %s", value.GetValue(), w)
		}
		return usage(fmt.Sprintf("--%s: %s", value.GetFlag().Name, want), help)
	}
	return usage(err.Error(), help)
}

// suggestFlag completes a message about an unknown flag with the nearest flag, or with --set for
// the key of that name, here or in another program.
func suggestFlag(cmd *cobra.Command, name string) string {
	near := conf.Nearest(name, flagNames(cmd))
	if cmd.Flags().Lookup("set") == nil || conf.SameName(near, name) {
		return didYouMean(near)
	}
	path, why := keys.ByName(name), ""
	if path == "" {
		path, why = suggestKey(name)
	}
	for _, k := range append(keyFlags, planKeys...) {
		if k.path == path && cmd.Flags().Lookup(k.flag) != nil {
			return didYouMean(k.flag)
		}
	}
	for _, k := range keyFlags {
		if k.flag == strings.ReplaceAll(name, "-", "_") {
			return ": it is a flag of trireme train. remove it"
		}
	}
	switch {
	case path != "" && !keys.IsGroup(path):
		return fmt.Sprintf(". did you mean --set %s=VALUE%s?", path, why)
	case path == "" && why != "":
		return ": " + why
	}
	return didYouMean(near)
}

// suggestKey is keys.Suggest, with --nproc for the number of ranks.
func suggestKey(path string) (meant, why string) {
	switch meant, why = keys.Suggest(path); {
	case meant == fault.Ranks:
		return "", "the number of ranks is not part of the configuration. try: --nproc N"
	case meant == "" && why == "":
		return keys.ByName(keys.Name(path)), "" // a key of another group
	}
	return meant, why
}

// suggestShort completes a message about an unknown shorthand: --model for -model, --nproc for -n.
func suggestShort(cmd *cobra.Command, letters string) string {
	if len(letters) > 1 {
		if f := cmd.Flags().Lookup(letters); f != nil {
			return didYouMean(f.Name)
		}
		return didYouMean(conf.Nearest(letters, flagNames(cmd)))
	}
	name := map[string]string{"d": "data", "e": "epochs", "m": "model", "n": "nproc", "p": "prompt", "r": "resume", "s": "set"}[letters]
	if name == "" || cmd.Flags().Lookup(name) == nil {
		return ""
	}
	return didYouMean(name)
}

func didYouMean(flag string) string {
	if flag == "" {
		return ""
	}
	return fmt.Sprintf(". did you mean --%s?", flag)
}

var flagTypes = map[string]string{
	"int": "an integer", "int64": "an integer", "uint": "an integer, zero or more", "uint64": "an integer, zero or more",
	"float64": "a number", "intSlice": "a list of integers, such as 1,2", "ranks": "an integer or auto", "bool": "true or false", "duration": "a duration, such as 90s or 1h30m",
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// group is the RunE of a command with subcommands only: it prints help, or suggests a command for
// an unknown name.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	what := fmt.Sprintf("unknown command %q of %s. ", args[0], cmd.CommandPath())
	if near := conf.Nearest(args[0], names); near != "" {
		return usage(what+fmt.Sprintf("did you mean %q?", near), cmd.CommandPath()+" "+near+" --help")
	}
	return usage(what+"commands: "+strings.Join(names, ", "), cmd.CommandPath()+" --help")
}

// noArgs refuses arguments and suggests the flag for the first.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	try := cmd.CommandPath() + " --help"
	switch ext := filepath.Ext(args[0]); {
	case cmd.Flags().Lookup("prompt") != nil:
		try = fmt.Sprintf("%s --prompt %q", cmd.CommandPath(), args[0])
	case cmd.Flags().Lookup("set") != nil && (ext == ".yaml" || ext == ".yml" || ext == ".json"):
		try = cmd.CommandPath() + " --config " + args[0]
	case cmd.Flags().Lookup("set") != nil && strings.Contains(args[0], "="):
		try = cmd.CommandPath() + " --set " + args[0]
	}
	return usage(fmt.Sprintf("%s takes no arguments, got %q", cmd.CommandPath(), args[0]), try)
}

// oneOf refuses a flag value that is not among choices.
func oneOf(flag, value string, choices ...string) error {
	for _, c := range choices {
		if c == value {
			return nil
		}
	}
	return usage(fmt.Sprintf("--%s: %v", flag, conf.NotOneOf(value, choices...)), "")
}
