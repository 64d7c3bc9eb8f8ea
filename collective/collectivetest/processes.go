package collectivetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"trireme/collective"
	"trireme/tensor"
)

// Open opens one rank's world in a child process.
type Open func(ctx context.Context, cfg collective.Config, rank, size int, x collective.Bootstrap) (collective.World, error)

const childEnv = "TRIREME_COLLECTIVETEST"

// record is a message between parent and child.
type record struct {
	Key    string   `json:",omitempty"` // of an AllGather
	Data   []byte   `json:",omitempty"`
	All    [][]byte `json:",omitempty"`
	Report string   `json:",omitempty"` // running, ok or an error
	Kinds  []string `json:",omitempty"` // kinds of the error
	Nano   int64    `json:",omitempty"` // time
}

// Child runs a rank and exits if this is a child process. Call it first in TestMain.
func Child(open Open) {
	v := os.Getenv(childEnv)
	if v == "" {
		return
	}
	f := strings.Split(v, " ")
	rank, _ := strconv.Atoi(f[1])
	size, _ := strconv.Atoi(f[2])
	timeout, _ := time.ParseDuration(f[3])
	c := &child{replies: make(chan record, 1), out: json.NewEncoder(os.Stdout)}
	go c.read()
	err := c.act(open, f[0], rank, size, collective.Config{Timeout: timeout})
	l := record{Report: "ok", Nano: time.Now().UnixNano()}
	if err != nil {
		l.Report = err.Error()
	}
	for name, kind := range map[string]error{"lost": collective.ErrPeerLost, "timeout": collective.ErrTimeout} {
		if errors.Is(err, kind) {
			l.Kinds = append(l.Kinds, name)
		}
	}
	c.write(l)
	os.Exit(0)
}

type child struct {
	replies chan record
	mu      sync.Mutex
	out     *json.Encoder
}

func (c *child) write(l record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.Encode(l) != nil {
		os.Exit(1) // the parent is gone
	}
}

// read reads replies. It exits the process when the parent ends.
func (c *child) read() {
	d := json.NewDecoder(os.Stdin)
	for {
		var l record
		if d.Decode(&l) != nil {
			os.Exit(1)
		}
		c.replies <- l
	}
}

// AllGather calls the parent's Bootstrap.
func (c *child) AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	c.write(record{Key: key, Data: mine})
	select {
	case l := <-c.replies:
		return l.All, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// act runs a rank: some checked operations, then the scenario.
func (c *child) act(open Open, scenario string, rank_, size int, cfg collective.Config) error {
	w, err := open(context.Background(), cfg, rank_, size, c)
	if err != nil {
		return err
	}
	all := make([]int, size)
	for i := range all {
		all[i] = i
	}
	g, err := w.Group("all", all)
	if err != nil {
		return err
	}
	r := &rank{World: w, g: g}
	for _, m := range []int{1, 3000, 300000} {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			if err := r.operation(dt, m, size); err != nil {
				return err
			}
		}
	}
	if scenario == "ok" {
		return w.Close()
	}
	c.write(record{Report: "running"})
	x := r.full(tensor.F32, 1<<18, rank_)
	for {
		if scenario == "compute" && rank_ == 0 {
			time.Sleep(5 * time.Millisecond) // the others mostly wait
		}
		if err := g.AllReduce(ctx, x, collective.Max, "layer 3"); err != nil {
			return err
		}
	}
}

type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	last record
	err  error
	ends chan struct{} // closed after last or err is set
}

// startWorkers starts n children and serves their Bootstrap. It calls running when all run.
func startWorkers(t *testing.T, scenario string, n int, timeout time.Duration, running func([]*process)) []*process {
	t.Helper()
	ps := make([]*process, n)
	for r := range ps {
		p := &process{cmd: exec.Command(os.Args[0]), ends: make(chan struct{})}
		p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %v", childEnv, scenario, r, n, timeout))
		p.cmd.Stderr = os.Stderr
		in, err1 := p.cmd.StdinPipe()
		out, err2 := p.cmd.StdoutPipe()
		if err := errors.Join(err1, err2, p.cmd.Start()); err != nil {
			t.Fatal(err)
		}
		p.in, p.out = in, bufio.NewReader(out)
		ps[r] = p
	}
	x := NewBootstrap(n)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var done, up sync.WaitGroup
	up.Add(n)
	for r, p := range ps {
		done.Add(1)
		go func() {
			defer done.Done()
			p.serve(ctx, x.Rank(r), sync.OnceFunc(up.Done))
		}()
	}
	up.Wait()
	running(ps)
	done.Wait()
	for _, p := range ps {
		p.in.Close()
		if p.err != nil {
			_ = p.cmd.Process.Kill()
		}
		_ = p.cmd.Wait() // it may have been killed
	}
	return ps
}

func (p *process) serve(ctx context.Context, x *RankBootstrap, up func()) {
	defer up()
	defer close(p.ends)
	d, e := json.NewDecoder(p.out), json.NewEncoder(p.in)
	for {
		var l record
		if p.err = d.Decode(&l); p.err != nil {
			return
		}
		switch {
		case l.Key != "":
			all, err := x.AllGather(ctx, l.Key, l.Data)
			if err != nil || e.Encode(record{All: all}) != nil {
				p.err = errors.Join(errors.New("bootstrap"), err)
				return
			}
		case l.Report == "running":
			up()
		default:
			p.last = l
			return
		}
	}
}

// RunProcesses runs the tests between processes: operations, a killed rank and a stopped one. TestMain
// must call Child.
func RunProcesses(t *testing.T) {
	t.Run("operations", func(t *testing.T) {
		for _, n := range []int{2, 3} {
			for r, p := range startWorkers(t, "ok", n, 20*time.Second, func([]*process) {}) {
				if p.last.Report != "ok" {
					t.Errorf("rank %d of %d: %q, %v", r, n, p.last.Report, p.err)
				}
			}
		}
	})
	for _, scenario := range []string{"busy", "compute"} {
		t.Run("killed "+scenario, func(t *testing.T) { killed(t, scenario) })
	}
	t.Run("stopped", stopped)
}

func killed(t *testing.T, scenario string) {
	var when time.Time
	ps := startWorkers(t, scenario, 3, 20*time.Second, func(ps []*process) {
		time.Sleep(30 * time.Millisecond)
		when = time.Now()
		_ = ps[1].cmd.Process.Kill()
	})
	for _, r := range []int{0, 2} {
		l := ps[r].last
		late := time.Duration(l.Nano - when.UnixNano())
		t.Logf("rank %d failed after %v: %s", r, late, l.Report)
		if len(l.Kinds) != 1 || l.Kinds[0] != "lost" || !strings.Contains(l.Report, "rank 1 ") || !strings.Contains(l.Report, "is lost") || late > 2*time.Second {
			t.Errorf("rank %d: %q after %v, want the loss of rank 1", r, l.Report, late)
		}
	}
}

func stopped(t *testing.T) {
	ps := startWorkers(t, "busy", 3, 2*time.Second, func(ps []*process) {
		time.Sleep(30 * time.Millisecond)
		if err := ps[1].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		go func() { // it stays until the others have given it up
			limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			for _, r := range []int{0, 2} {
				select {
				case <-ps[r].ends:
				case <-limit.Done():
				}
			}
			_ = ps[1].cmd.Process.Kill()
		}()
	})
	for _, r := range []int{0, 2} {
		l := ps[r].last
		t.Logf("rank %d: %s", r, l.Report)
		if len(l.Kinds) != 1 || l.Kinds[0] != "timeout" || !strings.Contains(l.Report, "; rank 1 (") || !strings.Contains(l.Report, "did not") {
			t.Errorf("rank %d: %q, want a time-out of rank 1", r, l.Report)
		}
	}
}
