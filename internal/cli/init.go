package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"trireme/internal/keys"
)

func newInit() *cobra.Command {
	var s keys.Template
	c := &cobra.Command{
		Use:   "init [FILE]",
		Short: "write a commented configuration to start from",
		Long: `Writes a configuration (default run.yaml) with every key, its meaning and its default, which
train --config reads. Lines marked FILL IN need a value, unless --model and --data give it;
other keys are commented out, or have their defaults. An existing file is not replaced.`,
		Example: `  trireme init
  trireme init sft.yaml --model DIR --data train.jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := "run.yaml"
			if len(args) > 0 {
				name = args[0]
			}
			file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return usage(name+" exists, and is not replaced", c.CommandPath()+" another.yaml")
			}
			if err != nil {
				return err
			}
			_, err = file.WriteString(s.YAML(name))
			if err := errors.Join(err, file.Close()); err != nil {
				return err
			}
			next := "trireme train --config " + name
			if s.Model == "" || s.Data == "" {
				next = "fill in the marked lines, then: " + next
			}
			_, err = fmt.Fprintf(c.ErrOrStderr(), "wrote %s\ntry: %s\n", name, next)
			return err
		},
	}
	c.Flags().StringVar(&s.Model, "model", "", "Hugging Face `DIR` to train, or its name on the hub [model.path]")
	c.Flags().StringVar(&s.Data, "data", "", "`PATH` of the training data [data.path]")
	return c
}
