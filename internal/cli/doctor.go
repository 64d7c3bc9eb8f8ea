package cli

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"trireme/fault"
	"trireme/internal/host"
	"trireme/internal/netif"
	"trireme/internal/pjrt/plugin"
	"trireme/internal/preflight"
	"trireme/rendezvous"
)

type doctorFlags struct {
	dir   string
	json  bool
	hosts hostsFlags
	ssh   sshFlags
}

func newDoctor() *cobra.Command { return newDoctorCommand(&doctorFlags{}) }

func newDoctorCommand(f *doctorFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "look for problems of this machine",
		Long: `Look for problems of this machine before a run: processors, memory, limits, shared memory, disk,
clock, versions, accelerators, network interfaces, its own name, and the environment variables that other
programs read, with their effect here. It takes a second, and writes and deletes a file in --dir.

With --hosts or --hostfile it checks the hosts of a job against each other, which it starts over ssh; with
--nnodes the same command on each host does the same without ssh. It checks names, connections, large
packets, bandwidth and latency of each pair, clocks, versions, secrets, and an all-reduce with a known
sum. The report names the host and what to try.

Each line is ok, a note, or a problem with what to try. The exit code is 3 if there is a problem.`,
		Example: `  trireme doctor
  trireme doctor --hosts n0,n1
  trireme doctor --nnodes 2 --node_rank 0 --rdzv_endpoint 10.0.0.1:29400 --secret_file job.secret
  trireme doctor --dir /shared/run1 --json
  trireme doctor devices
  trireme doctor job runs/llama-1`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return group(c, args)
			}
			return f.run(c)
		},
	}
	c.Flags().StringVar(&f.dir, "dir", ".", "measure the disk of this `DIR`, which a run will write to")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object")
	f.hosts.register(c)
	f.ssh.register(c)
	c.AddCommand(newDoctorDevices(), newDoctorJob())
	return c
}

// doctorReport is the report of one host.
type doctorReport struct {
	Schema   string         `json:"schema"`
	State    host.State     `json:"state"` // the worst of the findings
	Problems int            `json:"problems"`
	Findings []host.Finding `json:"findings"`
	Facts    host.Facts     `json:"facts"`
	Devices  *devicesReport `json:"devices"`
}

func (f *doctorFlags) run(c *cobra.Command) error {
	switch {
	case f.ssh.remote:
		return f.runRemote(c)
	case c.Flags().Changed("hosts") || c.Flags().Changed("hostfile"):
		return f.runSSH(c)
	case f.hosts.nnodes > 1:
		return f.runHosts(c)
	}
	r, err := f.examine(c.Context())
	if err != nil {
		return err
	}
	if f.json {
		err = writeJSON(c.OutOrStdout(), r)
	} else {
		err = r.print(c.OutOrStdout())
	}
	if err == nil && r.Problems > 0 {
		return &Exit{Code: CodeNo}
	}
	return err
}

// runHosts checks this host against others.
func (f *doctorFlags) runHosts(c *cobra.Command) error {
	note := func(line string) { fmt.Fprintln(c.ErrOrStderr(), line) }
	r, err := f.hosts.checkHosts(c.Context(), f.dir, note)
	if err != nil {
		return err
	}
	return f.print(c, r)
}

// print writes the report of hosts. Problems have exit code 3.
func (f *doctorFlags) print(c *cobra.Command, r *preflight.Report) (err error) {
	if f.json {
		err = writeJSON(c.OutOrStdout(), r)
	} else {
		err = r.Print(c.OutOrStdout())
	}
	if err == nil && r.Problems > 0 {
		return &Exit{Code: CodeNo}
	}
	return err
}

// examine reads the host and its accelerators at the same time.
func (f *doctorFlags) examine(ctx context.Context) (*doctorReport, error) {
	r := &doctorReport{Schema: "trireme.doctor/1"}
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { r.Facts = host.Read(ctx, host.Config{Program: readVersion().Version, Dir: f.dir}) })
	wg.Go(func() { r.Devices, failed = (&doctorDevicesFlags{}).examine(ctx, plugin.Machine()) })
	wg.Wait()
	if failed != nil {
		return nil, failed
	}
	r.Findings = append(r.Facts.Findings(), r.Devices.findings()...)
	r.Findings = append(r.Findings, variableFindings(r.Facts.Interfaces)...)
	r.State, r.Problems = host.Worst(r.Findings), host.Problems(r.Findings)
	return r, nil
}

// findings judges the accelerators.
func (r *devicesReport) findings() (out []host.Finding) {
	f := host.Finding{Check: "accelerators", State: host.OK, Text: "no GPU: runs use the processors"}
	switch n := len(r.Cards); {
	case n > 0 && len(r.Usable) > 0:
		f.Text = fmt.Sprintf("%s, CUDA %s, driver %s: --device cuda", number(int64(n), "GPU"), r.Driver.CUDA, r.Driver.Version)
	case n > 0:
		f.State, f.Text = host.Note, fmt.Sprintf("%s without software: runs use the processors", number(int64(n), "GPU"))
		if len(r.Install) > 0 {
			f.Try = r.Install[0]
		}
	case r.unread:
		f.State, f.Text, f.Try = host.Note, "the NVIDIA driver cannot be read: runs use the processors", "trireme doctor devices"
	}
	out = append(out, f)
	for _, n := range r.Notes {
		out = append(out, host.Finding{Check: "accelerators", State: host.Note, Text: n, Try: "trireme doctor devices"})
	}
	return out
}

// variableFindings judges the environment.
func variableFindings(interfaces []netif.Interface) (out []host.Finding) {
	for _, s := range host.Set(os.Environ()) {
		if f, ok := s.Finding(); ok {
			out = append(out, f)
		}
	}
	if _, err := rendezvous.Read(os.LookupEnv); err != nil {
		f := host.Finding{Check: "variables", State: host.Problem, Text: textOf(err)}
		if !fault.HasTry(err) {
			f.Try = "the launcher sets these variables: unset them in this shell"
		}
		out = append(out, f)
	}
	if chosen := netif.Chosen("", os.LookupEnv); chosen.Spec != "" {
		if _, err := netif.Select(interfaces, chosen.Spec, "192.0.2.1:9"); err != nil {
			out = append(out, host.Finding{Check: "variables", State: host.Problem, Text: fmt.Sprintf("%s=%s %v", chosen.From, chosen.Spec, err), Try: "one of them, or unset " + chosen.From})
		}
	}
	if len(out) == 0 {
		out = append(out, host.Finding{Check: "variables", State: host.OK, Text: "none of other programs is set"})
	}
	return out
}
