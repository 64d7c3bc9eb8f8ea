package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/alert"
	"trireme/internal/conf"
	"trireme/internal/rundir"
	"trireme/monitor"
	"trireme/train"
)

func newAlert() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "alert [DIR]",
		Short: "apply the alert rules of a run (logging.alerts), or try them",
		Long: `A run applies the rules of logging.alerts itself. "trireme alert --check DIR" applies those of the
run in a directory once, for example from cron: it prints each rule whose incident has not ended,
calls its command and webhook, and ends with code 3 if there is any. "trireme alert test DIR" calls
all commands and webhooks with a test.`,
		Example: `  trireme alert --check runs/sft-1
  trireme alert test runs/sft-1`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if !check {
				return group(c, args)
			}
			if err := oneRun(c, args); err != nil {
				return err
			}
			return checkAlerts(c, args[0])
		},
	}
	c.Flags().BoolVar(&check, "check", false, "apply the rules of the run in DIR")
	c.AddCommand(&cobra.Command{
		Use:     "test DIR",
		Short:   "call the commands and webhooks of a run's alert rules",
		Example: `  trireme alert test runs/sft-1`,
		Args:    oneRun,
		RunE:    func(c *cobra.Command, args []string) error { return testAlerts(c, args[0]) },
	})
	return c
}

// alertsOf returns the rules of the run in a directory.
func alertsOf(dir string) ([]monitor.Alert, error) {
	loaded, err := conf.Load(train.Default(), conf.File(filepath.Join(dir, rundir.Config)))
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	rules := loaded.Value.Logging.Alerts
	if len(rules) == 0 {
		return nil, usage(dir+": its configuration has no rules in logging.alerts", `logging: {alerts: [{when: "loss is NaN", command: "..."}]} in the configuration of the next run`)
	}
	return rules, nil
}

func checkAlerts(c *cobra.Command, dir string) error {
	run, err := openRun(c.Context(), dir, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer run.Close()
	rules, err := alertsOf(dir)
	if err != nil {
		return err
	}
	messages, err := alert.Check(run, rules, time.Now())
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range messages {
		fmt.Fprintln(c.OutOrStdout(), m.Text)
		for _, r := range rules {
			if r.When == m.Rule {
				errs = append(errs, alert.Send(c.Context(), r, m, os.Environ()))
			}
		}
	}
	if len(messages) > 0 {
		return &Exit{CodeNo, errors.Join(errs...)}
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "no alert: %d rules\n", len(rules))
	return err
}

func testAlerts(c *cobra.Command, dir string) error {
	rules, err := alertsOf(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range rules {
		m := alert.Message{Rule: r.When, State: "test", Text: "test of the alert: " + r.When, Dir: dir, Time: time.Now().UTC()}
		if err := alert.Send(c.Context(), r, m, os.Environ()); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(c.OutOrStdout(), "sent: %s\n", r.When)
	}
	return errors.Join(errs...)
}
