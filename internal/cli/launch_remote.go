package cli

import (
	"bufio"
	"context"
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

	"trireme/internal/hostfile"
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

// sshInput is the standard input of a remote launcher. Its methods do not wait: ssh reads nothing before it is
// connected.
type sshInput struct {
	mu     sync.Mutex
	lines  chan string
	closed bool
}

func newSSHInput(w io.WriteCloser, first []byte) *sshInput {
	in := &sshInput{lines: make(chan string, 32)}
	go func() {
		w.Write(append(first, '\n')) // an error shows in the end of ssh
		for line := range in.lines {
			io.WriteString(w, line)
		}
		w.Close()
	}()
	return in
}

func (in *sshInput) send(sig syscall.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	select {
	case in.lines <- strconv.Itoa(int(sig)) + "\n":
	default: // full: 32 signals wait already
	}
}

func (in *sshInput) Close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.closed = true
		close(in.lines)
	}
	return nil
}

// startRemote starts this program with a command on a host, over ssh, and sends it a job. It calls done at the
// end.
func startRemote(ctx context.Context, h hostfile.Host, options []string, command string, job remoteJob, stdout, stderr io.Writer, done func(sshEnd)) (*sshInput, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Keys of hosts are checked as the user's configuration says; a question cannot be answered.
	args := append(options, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "--", h.Name, shellQuote(exe)+" "+command)
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches the launchers through this one
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdout, cmd.Stderr = stdout, stderr
	w, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	in := newSSHInput(w, line)
	go func() {
		err := cmd.Wait()
		in.Close()
		end := sshEnd{host: h, code: cmd.ProcessState.ExitCode(), killed: ctx.Err() != nil}
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

// shellQuote quotes a word for the shell of another host.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

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
