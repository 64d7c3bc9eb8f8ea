package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/internal/conf"
)

// usageError rewrites what cobra and pflag say about a command line.
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
		what := fmt.Sprintf("unknown flag --%s of %s", unknown.GetSpecifiedName(), cmd.CommandPath())
		if near := conf.Nearest(unknown.GetSpecifiedName(), flagNames(cmd)); near != "" {
			what += fmt.Sprintf(". did you mean --%s?", near)
		}
		return usage(what, help)
	case errors.As(err, &value):
		want := value.Unwrap().Error()
		if w, ok := flagTypes[value.GetFlag().Value.Type()]; ok {
			want = fmt.Sprintf("%q is not %s", value.GetValue(), w)
		}
		return usage(fmt.Sprintf("--%s: %s", value.GetFlag().Name, want), help)
	}
	return usage(err.Error(), help)
}

var flagTypes = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint": "a whole number, zero or more", "uint64": "a whole number, zero or more",
	"float64": "a number", "bool": "true or false", "duration": "a duration, such as 90s or 1h30m",
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

// group is the RunE of a command that only holds others: it shows help, or says which
// command was meant.
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

// noArgs refuses arguments, naming the first.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Sprintf("%s takes no argument, but got %q", cmd.CommandPath(), args[0]), cmd.CommandPath()+" --help")
	}
	return nil
}

// oneOf refuses a flag's value that is none of choices.
func oneOf(flag, value string, choices ...string) error {
	for _, c := range choices {
		if c == value {
			return nil
		}
	}
	what := fmt.Sprintf("--%s: %q is not one of %s", flag, value, strings.Join(choices, ", "))
	if near := conf.Nearest(value, choices); near != "" {
		what += fmt.Sprintf(". did you mean %q?", near)
	}
	return usage(what, "")
}
