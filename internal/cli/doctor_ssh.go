package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/cluster"
	"trireme/internal/host"
	"trireme/internal/hostfile"
	"trireme/internal/preflight"
	"trireme/launch"
)

// sshFlags are the flags of doctor that starts itself on other hosts.
type sshFlags struct {
	hosts, hostfile string
	launcherArgs    string
	sshPort         int
	remote          bool
}

func (f *sshFlags) register(c *cobra.Command) {
	p := c.Flags()
	p.StringVar(&f.hosts, "hosts", "", "check these `HOSTS` against each other, started over ssh: n0,n1")
	p.StringVar(&f.hostfile, "hostfile", "", "check the hosts of this `FILE`, as --hosts does")
	p.StringVar(&f.launcherArgs, "launcher_args", "", "options of ssh")
	p.IntVar(&f.sshPort, "ssh_port", 0, "port of ssh")
	p.BoolVar(&f.remote, "remote", false, "read the job of another host from standard input")
	_ = p.MarkHidden("remote") // cannot fail: the flag exists
}

// list returns the hosts of the flags.
func (f *sshFlags) list() (all []hostfile.Host, err error) {
	if f.hostfile != "" {
		text, err := os.ReadFile(f.hostfile)
		if err != nil {
			return nil, &Exit{CodeUsage, err}
		}
		if all, err = hostfile.Parse(f.hostfile, string(text)); err != nil {
			return nil, &Exit{CodeUsage, err}
		}
	} else if f.hosts == "" {
		return nil, usage("--hosts: no hosts", "--hosts n0,n1")
	} else if all, err = hostfile.Parse("--hosts", strings.ReplaceAll(f.hosts, ",", "\n")); err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	if len(all) < 2 {
		return nil, usage("the check across hosts needs two hosts or more, and there is one", "--hosts n0,n1, or trireme doctor on that host")
	}
	return all, nil
}

// hostResult is the end of the check on one host.
type hostResult struct {
	index  int
	name   string
	report *preflight.Report // nil if there is none
	err    error
}

// defaultDoctorPort is the port at which hosts meet.
const defaultDoctorPort = "29400"

// runSSH checks the hosts, over ssh on all but this one, and prints one report.
func (f *doctorFlags) runSSH(c *cobra.Command) error {
	hosts, err := f.ssh.list()
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		return usage("--hosts needs the program ssh, which is not in PATH", "install OpenSSH's client, or run this command on each host with --nnodes and --node_rank")
	}
	local := slices.IndexFunc(hosts, func(h hostfile.Host) bool { return cluster.IsThisHost(c.Context(), h.Name) })
	s := &launchSettings{flags: &launchFlags{launcherArgs: f.ssh.launcherArgs, sshPort: f.ssh.sshPort}, hosts: hosts}
	if f.hosts.endpoint == "" {
		address, err := s.masterAddress(local)
		if err != nil {
			return err
		}
		f.hosts.endpoint = net.JoinHostPort(address, defaultDoctorPort)
	}
	if env, err := f.hosts.secret.env(); err != nil {
		return err
	} else if s.cluster.Insecure = env.Insecure; env.Secret != nil {
		s.cluster.Secret = env.Secret
	}
	f.hosts.job, f.hosts.nnodes = s.jobSecret(), len(hosts)
	return f.print(c, merge(f.startAll(c, s, local)))
}

// startAll runs the check on all hosts and returns their results, in the order of hosts.
func (f *doctorFlags) startAll(c *cobra.Command, s *launchSettings, local int) []hostResult {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	stderr := &lockedWriter{w: c.ErrOrStderr()}
	results := make(chan hostResult, len(s.hosts))
	for i, h := range s.hosts {
		own := *f
		own.hosts.nodeRank = i
		if i == local {
			go func() {
				note := func(line string) { fmt.Fprintln(stderr, hostPrefix(h.Name)+line) }
				r, err := own.hosts.checkHosts(ctx, f.dir, note)
				results <- hostResult{i, h.Name, r, err}
			}()
			continue
		}
		var out bytes.Buffer
		errs, flush := launch.PrefixLines(stderr, hostPrefix(h.Name))
		last := &lastLine{w: errs}
		_, err := startRemote(ctx, h, s.sshOptions(), "doctor --remote", own.remoteJob(), &out, last, func(end sshEnd) {
			flush()
			results <- resultOf(i, h.Name, end, out.Bytes(), last.text())
		})
		if err != nil {
			results <- hostResult{index: i, name: h.Name, err: err}
		}
	}
	all := make([]hostResult, len(s.hosts))
	for range s.hosts {
		r := <-results
		if ctx.Err() != nil && c.Context().Err() == nil { // ended because of another host
			r.err = nil
		}
		if all[r.index] = r; r.err != nil { // the others cannot join it; more errors may follow
			time.AfterFunc(2*time.Second, cancel)
		}
	}
	return all
}

// remoteJob returns the job for the standard input of a host.
func (f *doctorFlags) remoteJob() remoteJob {
	args := []string{"--json", "--nnodes=" + strconv.Itoa(f.hosts.nnodes), "--node_rank=" + strconv.Itoa(f.hosts.nodeRank), "--rdzv_endpoint=" + f.hosts.endpoint, "--timeout=" + f.hosts.timeout.String(), "--dir=" + f.dir}
	if f.hosts.config != "" {
		args = append(args, "--config="+f.hosts.config)
	}
	if f.hosts.job == "" {
		args = append(args, "--insecure")
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	return remoteJob{Dir: dir, Args: args, Env: passedOn(os.Environ()), Secret: f.hosts.job}
}

// resultOf reads what doctor printed on another host.
func resultOf(index int, name string, end sshEnd, stdout []byte, last string) hostResult {
	r := hostResult{index: index, name: name}
	report := &preflight.Report{}
	switch {
	case json.Unmarshal(stdout, report) == nil && len(report.Hosts) > 0:
		r.report = report
	case end.lost():
		r.err = end.failure()
	default:
		r.err = fmt.Errorf("host %s: %s", name, last)
	}
	return r
}

// merge returns the report of all hosts, or the findings of each if they did not meet.
func merge(all []hostResult) *preflight.Report {
	merged := preflight.Empty()
	var failed []preflight.Finding
	seen := map[string]bool{}
	for _, h := range all {
		switch {
		case h.report != nil && len(h.report.Hosts) == len(all):
			if len(merged.Hosts) < len(all) {
				findings := merged.Findings
				*merged = *h.report
				merged.Findings = append(merged.Findings, findings...)
			}
		case h.report != nil:
			for _, f := range h.report.Findings {
				if !seen[f.Text] {
					seen[f.Text] = true
					merged.Findings = append(merged.Findings, f)
				}
			}
		case h.err != nil:
			failed = append(failed, preflight.Finding{Finding: host.Finding{Check: "ssh", State: host.Problem, Text: textOf(h.err), Try: tryOf(h.err, h.name)}, Hosts: []string{h.name}})
		}
	}
	merged.Findings = append(failed, merged.Findings...)
	return merged.Judged()
}

// tryOf returns the advice of an error of ssh.
func tryOf(err error, name string) string {
	var p *Problem
	if errors.As(err, &p) && p.Try != "" {
		return p.Try
	}
	return "trireme doctor on " + name
}

// lastLine passes output on and keeps the last line.
type lastLine struct {
	w    io.Writer
	mu   sync.Mutex
	tail []byte
}

func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.tail = append(l.tail, b...)
	l.tail = l.tail[max(0, len(l.tail)-4096):]
	l.mu.Unlock()
	return l.w.Write(b)
}

func (l *lastLine) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(l.tail)), "\n")
	return lines[len(lines)-1]
}

// runRemote runs the part of this host in a check that another host started.
func (f *doctorFlags) runRemote(c *cobra.Command) error {
	in := bufio.NewReaderSize(c.InOrStdin(), 64<<10)
	job, err := readRemoteJob(in)
	if err != nil {
		return &Exit{CodeUsage, fmt.Errorf("--remote: %w", err)}
	}
	if os.Chdir(job.Dir) != nil { // no directory is needed: --dir may be absolute
		fmt.Fprintf(c.ErrOrStderr(), "note: directory %s does not exist on this host\n", job.Dir)
	}
	for name, v := range job.Env {
		os.Setenv(name, v)
	}
	own := &doctorFlags{}
	cmd := newDoctorCommand(own)
	addAliases(cmd)
	if err := cmd.ParseFlags(job.Args); err != nil {
		return &Exit{CodeUsage, err}
	}
	own.hosts.job = job.Secret
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	go func() {
		io.Copy(io.Discard, in) // until the other host or ssh ends
		cancel()
	}()
	c.SetContext(ctx)
	return own.runHosts(c)
}
