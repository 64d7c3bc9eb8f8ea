package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/keys"
)

type keysReport struct {
	Schema string     `json:"schema"`
	Keys   []keys.Key `json:"keys"`
}

func newConfigKeys() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "keys [GROUP | KEY]",
		Short: "print the reference of configuration keys: type, default, values and meaning",
		Long: `Print the type, default, values and meaning of configuration keys: all keys, the keys of a
group, or one key. docs/configuration.md has the same.`,
		Example: `  trireme config keys
  trireme config keys training
  trireme config keys training.lr_scheduler --json`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return keyCompletions(""), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			path := strings.TrimSuffix(strings.Join(args, ""), ".")
			list := keys.Under(path)
			if list == nil {
				return noKey(c, path)
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), keysReport{"trireme.keys/1", list})
			}
			var b strings.Builder
			for i, k := range list {
				writeKey(&b, k, i == 0)
			}
			_, err := io.WriteString(c.OutOrStdout(), b.String())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// noKey returns the error of a path that is not a key, with a suggestion.
func noKey(c *cobra.Command, path string) error {
	what := fmt.Sprintf("%q is neither a key nor a group", path)
	meant, why := suggestKey(path)
	if meant == "" && why == "" {
		meant = keys.Nearest(path)
	}
	switch {
	case meant != "":
		return usage(fmt.Sprintf("%s. did you mean %q%s?", what, meant, why), c.CommandPath()+" "+meant)
	case why != "":
		what += ": " + why
	}
	return usage(what, c.CommandPath())
}

// writeKey writes a key as a paragraph and a group as a heading.
func writeKey(b *strings.Builder, k keys.Key, first bool) {
	if k.Type == keys.Group {
		if !first {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s: %s\n\n", k.Path, k.Meaning)
		return
	}
	fmt.Fprintf(b, "  %s: %s, default %s\n", k.Path, k.Type, k.Default)
	text := k.Meaning
	if len(k.Values) > 0 {
		text = strings.TrimSpace("One of " + strings.Join(k.Values, ", ") + ". " + text)
	}
	for _, line := range keys.Wrap(text, 90) {
		fmt.Fprintf(b, "      %s\n", line)
	}
}
