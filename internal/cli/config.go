package cli

import (
	"github.com/spf13/cobra"

	"trireme/internal/conf"
	"trireme/rendezvous"
)

func newConfig() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "show the resolved configuration of a run, or the reference of keys",
		Example: `  trireme config show --config run.yaml --origin
  trireme config keys training`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	c.AddCommand(newConfigKeys(), newConfigShow())
	return c
}

type configReport struct {
	Schema  string         `json:"schema"`
	Config  map[string]any `json:"config"`            // the tree: .config.training.max_steps
	Origins conf.Origins   `json:"origins,omitempty"` // by path, with --origin
}

func newConfigShow() *cobra.Command {
	f := &trainFlags{}
	var origin, asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "print the resolved configuration",
		Long: `Print the configuration that train would use with the same flags and environment, as YAML
that train reads. Precedence: flag, --set, environment variable, file, default.`,
		Example: `  trireme config show --config run.yaml --set training.max_steps=20 --origin
  trireme config show --config run.yaml --json | jq .config.training.max_steps`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			j, err := f.job(c, rendezvous.Single())
			if err != nil {
				return err
			}
			if err := j.warn(c.ErrOrStderr()); err != nil {
				return err
			}
			origins := j.origins
			if !origin {
				origins = nil
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), configReport{"trireme.config/2", conf.Tree(j.cfg), origins})
			}
			return conf.Print(c.OutOrStdout(), j.cfg, origins)
		},
	}
	p := c.Flags()
	f.addConfigFlags(p)
	p.Var(&f.nproc, "nproc", "`N` ranks, for a file whose batch size depends on them")
	p.BoolVar(&origin, "origin", false, "print the source of each value")
	p.BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
