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
		Short: "write a commented configuration file",
		Long: `Write a configuration file (default run.yaml) for train --config, with the meaning and default
of every key. Fill in the lines marked FILL IN, or pass --model and --data. An existing file is
not overwritten.`,
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
				return usage(name+" exists, and init does not overwrite files", c.CommandPath()+" another.yaml")
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
	c.Flags().StringVar(&s.Model, "model", "", "Hugging Face model: a `DIR` or a name on the hub [model.path]")
	c.Flags().StringVar(&s.Data, "data", "", "training data: a `PATH` or a name on the hub [data.path]")
	return c
}
