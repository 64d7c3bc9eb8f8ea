package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/device"
	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/internal/keys"
	"trireme/parallel"
	"trireme/planner"
)

// flagValues completes the values of flags by name, on all commands. Flags in flagFiles complete files,
// those in flagDirs directories, others nothing.
var flagValues = map[string]func(typed string) ([]string, cobra.ShellCompDirective){
	"accounting":    among(planner.AccountingNames()...),
	"config_format": among(foreign.Formats()...),
	"device":        among(device.Name("").Choices()...),
	"dtype":         among("float32", "bfloat16", "float16", "q8_0"),
	"kinds":         among(kindNames()...),
	"mode":          among("ddp", "fsdp", "deepspeed"),
	"nproc":         among("auto"),
	"param_dtype":   among("float32", "bfloat16", "float16"),
	"resume":        among("auto", "none"),
	"set":           assignments,
	"strategies":    among(parallel.StrategyNames()...),
	"strategy":      among(parallel.StrategyNames()...),
	"trace":         among("steps="),
	"transport":     among(transports...),
	"weights":       among("final", "ema"),

	"activation_checkpointing": among("true", "false"),
}

var (
	flagDirs  = []string{"model", "output_dir", "tokenizer", "output"}
	flagFiles = []string{"config", "data", "plugin", "markdown"}
)

func among(values ...string) func(string) ([]string, cobra.ShellCompDirective) {
	return func(string) ([]string, cobra.ShellCompDirective) { return values, cobra.ShellCompDirectiveNoFileComp }
}

// assignments completes KEY=VALUE: the key, then its values.
func assignments(typed string) ([]string, cobra.ShellCompDirective) {
	path, _, valued := strings.Cut(typed, "=")
	if !valued {
		return keyCompletions("="), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	k, _ := keys.Find(path)
	values := k.Values
	if strings.HasPrefix(k.Type, "true") {
		values = []string{"true", "false"}
	}
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = path + "=" + v
	}
	if len(out) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// keyCompletions returns all keys, each with the suffix end and its meaning.
func keyCompletions(end string) []string {
	var out []string
	for _, k := range keys.All() {
		if k.Type == keys.Group && end != "" {
			continue
		}
		meaning, _, _ := strings.Cut(k.Meaning, ". ")
		out = append(out, k.Path+end+"\t"+strings.TrimSuffix(meaning, "."))
	}
	return out
}

// completions registers completions for the flags of a command and its subcommands.
func completions(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		values, listed := flagValues[f.Name]
		complete := func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			switch {
			case listed:
				found, directive := values(typed)
				return slices.DeleteFunc(slices.Clone(found), func(v string) bool { return !strings.HasPrefix(v, typed) }), directive
			case slices.Contains(flagDirs, f.Name):
				return nil, cobra.ShellCompDirectiveFilterDirs
			case slices.Contains(flagFiles, f.Name):
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if f.Value.Type() != "bool" {
			_ = c.RegisterFlagCompletionFunc(f.Name, complete) // a command may have registered its own
		}
		_, f.Usage = pflag.UnquoteUsage(f)
	})
	for _, sub := range c.Commands() {
		completions(sub)
	}
}

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash | zsh | fish | powershell",
		Short: "print a shell completion script",
		Long: `Print a script for a shell to complete commands, flags and values, including configuration keys
and their values after --set. Bash needs the package bash-completion.`,
		Example: `  source <(trireme completion bash)
  trireme completion zsh > "${fpath[1]}/_trireme"
  trireme completion fish > ~/.config/fish/completions/trireme.fish
  trireme completion powershell | Out-String | Invoke-Expression`,
		Args:      cobra.ArbitraryArgs,
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name one shell: "+strings.Join(shells, ", "), "source <(trireme completion bash)")
			}
			root, out := c.Root(), c.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usage(conf.NotOneOf(args[0], shells...).Error(), "source <(trireme completion bash)")
		},
	}
}
