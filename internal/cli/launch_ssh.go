package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"trireme/internal/cluster"
	"trireme/internal/hostfile"
	"trireme/launch"
)

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
	signals := make(chan os.Signal, 32)
	defer stopOf(c.Context()).Forward(signals)()
	r := &hostsRun{n: len(s.hosts), elastic: s.cluster.MinHosts < s.cluster.MaxHosts, ends: make(chan sshEnd, len(s.hosts)), signals: signals, kill: cancel}
	for i, h := range s.hosts {
		if i == local {
			continue
		}
		in, err := s.startSSH(ctx, h, jobs[i], stdout, stderr, r.ends)
		if err != nil {
			r.ends <- sshEnd{host: h, code: CodeFailed, err: err}
			continue
		}
		r.inputs = append(r.inputs, in)
	}
	if local >= 0 {
		r.here, r.done = make(chan os.Signal, 32), make(chan error, 1)
		out, flush := launch.PrefixLines(stdout, hostPrefix(s.hosts[local].Name))
		errs, flushErrs := launch.PrefixLines(stderr, hostPrefix(s.hosts[local].Name))
		go func() {
			err := s.runJob(ctx, jobs[local], c, r.here, out, errs)
			flush()
			flushErrs()
			r.done <- err
		}()
	}
	return r.await()
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

func hostPrefix(name string) string { return name + ": " }

// hostsRun are the launchers of a job, on all hosts.
type hostsRun struct {
	n       int // launchers
	elastic bool
	inputs  []*sshInput
	ends    chan sshEnd
	signals <-chan os.Signal
	here    chan os.Signal // to the launcher on this host; nil: none
	done    chan error     // its end
	kill    context.CancelFunc

	asked syscall.Signal // the first stop signal
	first error          // of the launchers on other hosts
}

// await waits until all launchers have ended, and sends them signals. The loss of a host ends the job unless it is
// elastic.
func (r *hostsRun) await() error {
	var own error
	var late, hopeless <-chan time.Time
	leaving := false // one has ended with an error, and the others are stopped
	for ended := 0; ended < r.n; {
		select {
		case <-late:
			r.stop()
		case <-hopeless: // ssh may wait for a host that does not answer
			r.kill()
		case s := <-r.signals:
			if sig := s.(syscall.Signal); r.forward(sig) {
				hopeless = time.After(leaveTime)
			}
		case own = <-r.done:
			if ended++; own != nil && !r.elastic && !leaving {
				leaving, late = true, time.After(leaveTime)
			}
		case end := <-r.ends:
			ended++
			err := end.failure()
			if r.asked != 0 && end.killed {
				err = &Exit{Code: (&launch.StopRequest{Signal: r.asked}).Code()}
			}
			switch {
			case err == nil:
			case r.elastic || leaving:
			case end.lost():
				leaving = true
				r.stop()
			default: // the others end too, unless this one has not joined
				leaving, late = true, time.After(leaveTime)
			}
			// The lost launcher may have stopped another one, whose end is seen first.
			if r.first == nil || r.asked == 0 && end.lost() && !end.killed && codeOf(r.first) == CodeTerminated {
				r.first = err
			}
		}
		if r.asked != 0 && ended > 0 && hopeless == nil {
			hopeless = time.After(2 * leaveTime) // the launchers of a job end together
		}
	}
	if own != nil && (r.first == nil || codeOf(own) != CodeTerminated) {
		return own
	}
	return r.first
}

// forward sends a signal to all launchers, and reports whether it is a second SIGINT.
func (r *hostsRun) forward(sig syscall.Signal) (again bool) {
	for _, in := range r.inputs {
		in.send(sig)
	}
	if r.here != nil {
		r.here <- sig
	}
	if sig == syscall.SIGQUIT || sig == syscall.SIGTSTP {
		return false
	}
	again = r.asked != 0 && sig == syscall.SIGINT
	if r.asked == 0 {
		r.asked = sig
	}
	return again
}

// stop ends all launchers.
func (r *hostsRun) stop() {
	for _, in := range r.inputs {
		in.Close()
	}
	if r.here != nil {
		r.here <- syscall.SIGTERM
	}
}

// leaveTime is the time for the other launchers to end after one has ended with an error.
const leaveTime = 3 * time.Second

// sshEnd is the end of a host's ssh.
type sshEnd struct {
	host   hostfile.Host
	code   int
	killed bool  // by this process
	err    error // ssh could not start
}

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

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
