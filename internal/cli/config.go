package cli

import (
	"github.com/spf13/cobra"

	"trireme/internal/conf"
	"trireme/rendezvous"
)

func newConfig() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "show a run's configuration as it is resolved",
		Args:  cobra.ArbitraryArgs,
		RunE:  group,
	}
	c.AddCommand(newConfigShow())
	return c
}

type configReport struct {
	Schema  string       `json:"schema"`
	YAML    string       `json:"yaml"`
	Origins conf.Origins `json:"origins"`
}

func newConfigShow() *cobra.Command {
	f := &trainFlags{}
	var origin, asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "print every value, and with --origin the place that decided it",
		Long: `Prints the configuration that train would use with the same flags and environment, as YAML
that train reads. The first of these that sets a value wins: flag, --set, environment variable,
file, default.`,
		Example: "  trireme config show --config run.yaml --set training.max_steps=20 --origin",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			j, err := f.job(c, rendezvous.Single())
			if err != nil {
				return err
			}
			if err := j.warn(c.ErrOrStderr()); err != nil {
				return err
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), configReport{"trireme.config/1", j.resolved, j.origins})
			}
			origins := j.origins
			if !origin {
				origins = nil
			}
			return conf.Print(c.OutOrStdout(), j.cfg, origins)
		},
	}
	p := c.Flags()
	f.treeFlags(p)
	p.IntVar(&f.nproc, "nproc", 0, "ranks, where a file's batch depends on them")
	p.BoolVar(&origin, "origin", false, "after each value, the place that decided it")
	p.BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
