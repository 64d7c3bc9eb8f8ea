package cli

import "github.com/spf13/cobra"

func newDoctor() *cobra.Command {
	c := &cobra.Command{
		Use:     "doctor",
		Short:   "look for problems of this machine",
		Example: `  trireme doctor devices`,
		Args:    cobra.ArbitraryArgs,
		RunE:    group,
	}
	c.AddCommand(newDoctorDevices())
	return c
}
