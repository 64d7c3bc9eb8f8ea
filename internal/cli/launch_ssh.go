package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/internal/cluster"
	"trireme/internal/hostfile"
	"trireme/internal/netif"
	"trireme/launch"
)

// remoteJob is the message of a launcher to the launcher of another host, one line on its standard input. Lines
// with the numbers of signals follow. The other launcher stops its workers when the input ends.
type remoteJob struct {
	Host   string            `json:"host"` // its name in the hostfile
	Dir    string            `json:"dir"`
	Args   []string          `json:"args"` // of trireme launch
	Env    map[string]string `json:"env"`
	Secret string            `json:"secret"`
}

// maxRemoteJob limits a job's line in bytes.
const maxRemoteJob = 4 << 20

// sshEnd is the end of a host's ssh.
type sshEnd struct {
	host hostfile.Host
	code int
	err  error // ssh could not start
}

// runHosts starts a launcher on each host of the hostfile, over ssh on all but this one, and waits for them.
func (s *launchSettings) runHosts(c *cobra.Command) error {
	stopOf(c.Context()).Graceful()
	if _, err := exec.LookPath("ssh"); err != nil {
		return usage("--hostfile needs the program ssh, which is not in PATH", "install OpenSSH's client, or run this command on each host with --node_rank")
	}
	local := -1
	if !s.flags.forceMulti {
		local = slices.IndexFunc(s.hosts, func(h hostfile.Host) bool { return cluster.IsThisHost(c.Context(), h.Name) })
	}
	address, err := s.masterAddress(local)
	if err != nil {
		return err
	}
	jobs, err := s.remoteJobs(c, address)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	defer cancel()
	var stdout, stderr io.Writer = &lockedWriter{w: c.OutOrStdout()}, &lockedWriter{w: c.ErrOrStderr()}
	ends := make(chan sshEnd, len(s.hosts))
	var inputs []*sshInput
	for i, h := range s.hosts {
		if i == local {
			continue
		}
		in, err := s.startSSH(ctx, h, jobs[i], stdout, stderr, ends)
		if err != nil {
			ends <- sshEnd{h, CodeFailed, err}
			continue
		}
		inputs = append(inputs, in)
	}
	signals := make(chan os.Signal, 32)
	defer stopOf(c.Context()).Forward(signals)()
	here := make(chan os.Signal, 32)
	done := make(chan error, 1)
	if local >= 0 {
		out, flush := launch.PrefixLines(stdout, hostPrefix(s.hosts[local].Name))
		errs, flushErrs := launch.PrefixLines(stderr, hostPrefix(s.hosts[local].Name))
		go func() {
			err := s.runJob(ctx, jobs[local], c, here, out, errs)
			flush()
			flushErrs()
			done <- err
		}()
	}
	return s.awaitHosts(ctx, len(s.hosts), local >= 0, inputs, signals, here, ends, done)
}

// awaitHosts waits until all launchers have ended, and sends them signals. The loss of a host ends the job unless
// it is elastic.
func (s *launchSettings) awaitHosts(ctx context.Context, hosts int, local bool, inputs []*sshInput, signals <-chan os.Signal, here chan<- os.Signal, ends <-chan sshEnd, done <-chan error) error {
	var first, own error
	stop := func() {
		for _, in := range inputs {
			in.Close()
		}
		if local {
			here <- syscall.SIGTERM
		}
	}
	stopped := false
	var late <-chan time.Time
	for range hosts {
	wait:
		select {
		case <-late:
			stop()
			goto wait
		case sig := <-signals:
			for _, in := range inputs {
				in.send(sig.(syscall.Signal))
			}
			if local {
				here <- sig
			}
			goto wait
		case own = <-done:
		case end := <-ends:
			err := end.failure()
			if err == nil {
				break
			}
			if first == nil {
				first = err
			}
			switch elastic := s.cluster.MinHosts < s.cluster.MaxHosts; {
			case stopped || elastic:
			case end.lost():
				stopped = true
				stop()
			default: // the others end too, unless this one has not joined
				stopped, late = true, time.After(leaveTime)
			}
		}
	}
	if own != nil && (first == nil || codeOf(own) != CodeTerminated) {
		return own
	}
	return first
}

// leaveTime is the time for the other launchers to end after one has ended with an error.
const leaveTime = 3 * time.Second

// lost reports whether ssh failed or the connection broke. ssh has code 255 then.
func (e sshEnd) lost() bool { return e.err != nil || e.code == 255 || e.code == 126 || e.code == 127 }

// failure returns the error of a host's end.
func (e sshEnd) failure() error {
	name := e.host.Name
	switch {
	case e.err != nil:
		return &Exit{CodeFailed, &Problem{Text: fmt.Sprintf("host %s: %v", name, e.err)}}
	case e.code == 0:
		return nil
	case e.code == 255:
		return &Exit{CodePeerLost, &Problem{Text: fmt.Sprintf("host %s: ssh failed or lost its connection (exit code 255); the job ended", name), Try: fmt.Sprintf("ssh %s true, which must need no password or question", name)}}
	case e.code == 126 || e.code == 127:
		exe, _ := os.Executable()
		return &Exit{CodeUsage, &Problem{Text: fmt.Sprintf("host %s has no program %s (exit code %d)", name, exe, e.code), Try: "copy trireme to the same path on every host"}}
	}
	return &Exit{e.code, nil} // its launcher has said why
}

// masterAddress returns the address of the first host that the others reach: --master_addr, or, if the first host
// is this machine, the address of the interface that leads to the second, else the host name of ssh's
// configuration.
func (s *launchSettings) masterAddress(local int) (string, error) {
	switch {
	case s.cluster.MasterAddr != "" || len(s.cluster.Endpoints) > 0:
		return s.cluster.MasterAddr, nil
	case local != 0:
		return s.hostName(s.hosts[0].Name)
	case len(s.hosts) == 1:
		return "127.0.0.1", nil
	}
	second, err := s.hostName(s.hosts[1].Name)
	if err != nil {
		return "", err
	}
	address, err := netif.Towards(net22(second))
	if err != nil {
		return "", usage(err.Error(), "--master_addr ADDRESS of this machine")
	}
	return address, nil
}

// hostName returns the name or address that ssh connects to for a host.
func (s *launchSettings) hostName(host string) (string, error) {
	out, err := exec.Command("ssh", append(s.sshOptions(), "-G", "--", host)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", usage(fmt.Sprintf("ssh -G %s: %s", host, strings.TrimSpace(string(exit.Stderr))), "--launcher_args with valid arguments of ssh")
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "hostname "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return host, nil
}

func net22(host string) string { return strings.Trim(host, "[]") + ":22" }

// sshOptions are the user's options. ssh takes the first value of an option.
func (s *launchSettings) sshOptions() []string {
	args := strings.Fields(s.flags.launcherArgs)
	if s.flags.sshPort != 0 {
		args = append(args, "-p", strconv.Itoa(s.flags.sshPort))
	}
	return args
}

// remoteJobs returns the job of each host.
func (s *launchSettings) remoteJobs(c *cobra.Command, address string) ([]remoteJob, error) {
	secret := s.jobSecret()
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var common []string
	c.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(flagsOfHosts, flag.Name) {
			common = append(common, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	nodes := strconv.Itoa(len(s.hosts))
	if s.cluster.MinHosts < len(s.hosts) {
		nodes = strconv.Itoa(s.cluster.MinHosts) + ":" + nodes
	}
	var jobs []remoteJob
	for i, h := range s.hosts {
		args := append(slices.Clone(common), "--nnodes="+nodes, "--node_rank="+strconv.Itoa(i), "--nproc_per_node="+strconv.Itoa(h.Slots))
		if address != "" {
			args = append(args, "--master_addr="+address)
		}
		env := passedOn(os.Environ())
		if h.Devices != nil {
			env["CUDA_VISIBLE_DEVICES"] = joinInts(h.Devices)
		}
		jobs = append(jobs, remoteJob{Host: h.Name, Dir: dir, Args: append(append(args, "--"), c.Flags().Args()...), Env: env, Secret: secret})
	}
	return jobs, nil
}

// flagsOfHosts are the flags that each host's launcher gets with its own value, or not at all.
var flagsOfHosts = []string{
	"hostfile", "include", "exclude", "launcher", "launcher_args", "ssh_port", "no_ssh", "no_ssh_check", "force_multi", "deepspeed_hostfile", "deepspeed_inclusion_filter",
	"deepspeed_exclusion_filter", "deepspeed_multinode_launcher", "nnodes", "num_nodes", "num_machines", "node_rank", "machine_rank", "nproc_per_node", "num_gpus", "num_processes",
	"master_addr", "main_process_ip", "secret_file", "local_addr", "min_elastic_nodes", "max_elastic_nodes", "help",
}

// jobSecret returns the user's secret, or a new one.
func (s *launchSettings) jobSecret() string {
	if s.cluster.Insecure || s.cluster.Secret != nil {
		return string(s.cluster.Secret)
	}
	b := make([]byte, 32)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// passedOn returns the variables that the other hosts' launchers get: those of the libraries of programs, and
// where programs are found. Others are set by the hosts themselves.
func passedOn(environ []string) map[string]string {
	out := map[string]string{}
	for _, kv := range environ {
		name, v, _ := strings.Cut(kv, "=")
		prefixed := slices.ContainsFunc([]string{"NCCL_", "TORCH", "GLOO_", "OMP_", "MKL_", "UCX_", "MV2_", "FI_", "PYTHON", "HF_", "WANDB_", "XLA_", "ACCELERATE_", "TRIREME_"}, func(p string) bool { return strings.HasPrefix(name, p) })
		exact := slices.Contains([]string{"PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "TOKENIZERS_PARALLELISM"}, name)
		if (prefixed || exact) && !internalVars[name] {
			out[name] = v
		}
	}
	return out
}

// sshInput is the standard input of a remote launcher.
type sshInput struct {
	mu sync.Mutex
	w  io.WriteCloser
}

func (in *sshInput) send(sig syscall.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	fmt.Fprintln(in.w, int(sig))
}

func (in *sshInput) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.w.Close()
}

// startSSH starts the launcher of a host. Its end is sent to ends.
func (s *launchSettings) startSSH(ctx context.Context, h hostfile.Host, job remoteJob, stdout, stderr io.Writer, ends chan<- sshEnd) (*sshInput, error) {
	out, flush := launch.PrefixLines(stdout, hostPrefix(h.Name))
	errs, flushErrs := launch.PrefixLines(stderr, hostPrefix(h.Name))
	return startRemote(ctx, h, s.sshOptions(), "launch --remote", job, out, errs, func(end sshEnd) {
		flush()
		flushErrs()
		ends <- end
	})
}

// startRemote starts this program with a command on a host, over ssh, and sends it a job. It calls done at the
// end.
func startRemote(ctx context.Context, h hostfile.Host, options []string, command string, job remoteJob, stdout, stderr io.Writer, done func(sshEnd)) (*sshInput, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Keys of hosts are checked as the user's configuration says; a question cannot be answered.
	args := append(options, "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "--", h.Name, shellQuote(exe)+" "+command)
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches the launchers through this one
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdout, cmd.Stderr = stdout, stderr
	w, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	in := &sshInput{w: w}
	line, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	go func() {
		in.mu.Lock()
		w.Write(append(line, '\n'))
		in.mu.Unlock()
	}()
	go func() {
		err := cmd.Wait()
		end := sshEnd{host: h, code: cmd.ProcessState.ExitCode()}
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && end.code == 0 {
			end.err = err
		}
		if end.code < 0 {
			end.code = 255 // ssh was killed
		}
		done(end)
	}()
	return in, nil
}

func hostPrefix(name string) string { return name + ": " }

// shellQuote quotes a word for the shell of another host.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// runRemote runs the job that the launcher of another host sends on standard input, and stops it when that
// ends.
func (f *launchFlags) runRemote(c *cobra.Command) error {
	stop := stopOf(c.Context())
	stop.Graceful()
	in := bufio.NewReaderSize(c.InOrStdin(), 64<<10)
	job, err := readRemoteJob(in)
	if err != nil {
		return &Exit{CodeUsage, fmt.Errorf("--remote: %w", err)}
	}
	if err := os.Chdir(job.Dir); err != nil {
		return &Exit{CodeUsage, &Problem{Text: fmt.Sprintf("directory %s does not exist on this host", job.Dir), Try: "a directory that all hosts share, or create it", Err: err}}
	}
	for name, v := range job.Env {
		os.Setenv(name, v)
	}
	go func() {
		for {
			line, err := in.ReadString('\n')
			if n, bad := strconv.Atoi(strings.TrimSpace(line)); bad == nil && slices.Contains([]int{int(syscall.SIGINT), int(syscall.SIGTERM), int(syscall.SIGUSR1), int(syscall.SIGUSR2), int(syscall.SIGQUIT)}, n) {
				syscall.Kill(os.Getpid(), syscall.Signal(n))
			}
			if err != nil { // the launcher or ssh has ended
				syscall.Kill(os.Getpid(), syscall.SIGTERM)
				return
			}
		}
	}()
	signals := make(chan os.Signal, 32)
	defer stop.Forward(signals)()
	s := &launchSettings{}
	return s.runJob(context.WithoutCancel(c.Context()), job, c, signals, c.OutOrStdout(), c.ErrOrStderr())
}

// readRemoteJob reads the first line.
func readRemoteJob(in *bufio.Reader) (job remoteJob, err error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxRemoteJob {
			return job, errors.New("no job on standard input: another launcher starts this command over ssh")
		}
	}
	if err := json.Unmarshal(line, &job); err != nil {
		return job, fmt.Errorf("the job on standard input: %w", err)
	}
	if job.Dir == "" || len(job.Args) == 0 {
		return job, errors.New("the job on standard input has no directory or no arguments")
	}
	return job, nil
}

// runJob runs the part of a host in a job over ssh.
func (*launchSettings) runJob(ctx context.Context, job remoteJob, c *cobra.Command, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	f := &launchFlags{}
	own := newLaunchCommand(f)
	addAliases(own)
	own.SetContext(c.Context())
	own.SetErr(stderr)
	if err := own.ParseFlags(job.Args); err != nil {
		return &Exit{CodeUsage, err}
	}
	s, err := f.settings(own, own.Flags().Args())
	if err != nil {
		return err
	}
	if job.Secret != "" {
		s.cluster.Secret = []byte(job.Secret)
	}
	for _, n := range s.notes {
		fmt.Fprintf(stderr, "note: %s\n", n)
	}
	s.cluster.Workers.Signals, s.cluster.Name = signals, job.Host
	err = s.runHere(ctx, stdout, stderr)
	var exit *Exit
	var failure *launch.Failure
	if errors.As(err, &exit) && errors.As(err, &failure) && failure.Host != "" && failure.Host != job.Host {
		return &Exit{Code: exit.Code} // the launcher of that host says it, on the same terminal
	}
	return err
}
