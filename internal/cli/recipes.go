package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/keys"
)

type recipesReport struct {
	Schema  string      `json:"schema"`
	Recipes []recipeJob `json:"recipes"`
}

func newRecipes() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "recipes",
		Short: "list the built-in recipe and the examples, with their commands",
		Long: `List the built-in recipe and the examples of the repository with the command that runs each.
None needs a network.`,
		Example: `  trireme recipes
  trireme recipes --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return writeJSON(c.OutOrStdout(), recipesReport{"trireme.recipes/1", recipeJobs})
			}
			var b strings.Builder
			for _, j := range recipeJobs {
				fmt.Fprintf(&b, "%s: %s\n  needs %s\n", j.Name, j.About, j.Needs)
				// Lines break between flags, not between a flag and its value.
				words := strings.ReplaceAll(strings.ReplaceAll(j.Command, " ", "\x00"), "\x00--", " --")
				lines := strings.Join(keys.Wrap(words, 100), " \\\n      ")
				fmt.Fprintf(&b, "  $ %s\n\n", strings.ReplaceAll(lines, "\x00", " "))
			}
			_, err := io.WriteString(c.OutOrStdout(), b.String())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
