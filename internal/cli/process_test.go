package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/rendezvous"
	"trireme/train"
)

// notes collects the lines of a process.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *notes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *notes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// testProcesses connects the processes of a job with ranks ranks in each. out receives the notes of the first.
func testProcesses(t *testing.T, count, ranks int, w waits, out *notes) []*process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	stop := newStop(t)
	stop.SetDumpDir(t.TempDir(), "rank-0000")
	ctx := context.WithValue(t.Context(), stopKey{}, stop)
	var all []*process
	for i := range count {
		e := rendezvous.Env{Rank: i, WorldSize: count, LocalRank: i, LocalWorldSize: count, GroupWorldSize: 1, MasterAddr: "127.0.0.1",
			MasterPort: l.Addr().(*net.TCPAddr).Port, RunID: t.Name(), Secret: []byte("0123456789abcdef"), Launched: true}
		e, err := e.Multiply(ranks)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, connect(ctx, e, w, out))
	}
	return all
}

// barrier waits for all ranks in a collective.
func barrier(w *world) error {
	all := make([]int, w.Size())
	for r := range all {
		all[r] = r
	}
	g, err := w.Group("all", all)
	if err != nil {
		return err
	}
	return g.Barrier(w.conn.ctx, "test")
}

// The ranks of a process end together, with the first cause and its code.
func TestProcessEnds(t *testing.T) {
	fire := errors.New("disk on fire")
	for _, c := range []struct {
		name, want string
		code       int
		f          func(w *world) error // after a first barrier
	}{
		{"done", "", CodeDone, barrier},
		{"one fails", "rank 2: disk on fire", CodeFailed, func(w *world) error {
			if w.env.Rank == 2 {
				return fire
			}
			return barrier(w)
		}},
		{"rank 0 fails", "disk on fire", CodeFailed, func(w *world) error {
			if w.env.Rank == 0 {
				return fire
			}
			return barrier(w)
		}},
		{"one fails outside collectives", "rank 1: disk on fire", CodeFailed, func(w *world) error {
			if w.env.Rank == 1 {
				return fire
			}
			<-w.conn.ctx.Done()
			return context.Cause(w.conn.ctx)
		}},
		{"all fail alike", "disk on fire", CodeFailed, func(w *world) error {
			time.Sleep(200 * time.Millisecond) // all leave the first barrier
			return fire
		}},
		{"one panics", "rank 2: internal error: no oars", CodeCrashed, func(w *world) error {
			if w.env.Rank == 2 {
				panic("no oars")
			}
			return barrier(w)
		}},
		{"rank 0 panics", "rank 0: internal error: no oars", CodeCrashed, func(w *world) error {
			if w.env.Rank == 0 {
				panic("no oars")
			}
			return barrier(w)
		}},
		{"all stop early", train.ErrStopped.Error(), CodeStopped, func(w *world) error { return train.ErrStopped }},
		{"not finite", train.ErrNotFinite.Error(), CodeFailed, func(w *world) error { return train.ErrNotFinite }},
	} {
		for _, transport := range []string{"auto", "tcp"} {
			t.Run(c.name+"/"+transport, func(t *testing.T) {
				t.Parallel()
				p := testProcesses(t, 1, 3, waits{timeout: 20 * time.Second, grace: 10 * time.Second}, &notes{})[0]
				began := time.Now()
				err := p.run(transport, func(w *world) error {
					if err := barrier(w); err != nil {
						return err
					}
					return c.f(w)
				})
				if text := fmt.Sprint(err); codeOf(err) != c.code || err != nil && !strings.HasPrefix(text, c.want) {
					t.Errorf("code %d, %v; want %d, %s", codeOf(err), err, c.code, c.want)
				}
				if took := time.Since(began); took > 8*time.Second {
					t.Errorf("took %v", took)
				}
				if c.code == CodeCrashed {
					var problem *Problem
					errors.As(err, &problem)
					stack, _ := os.ReadFile(strings.TrimPrefix(problem.Where, "stack: "))
					if filepath.Base(problem.Where) != "crash-rank-0000.txt" || !strings.HasPrefix(string(stack), "panic: no oars\n\n") || !strings.Contains(string(stack), "TestProcessEnds") {
						t.Errorf("%s: %.200s", problem.Where, stack)
					}
				}
			})
		}
	}
}

// A rank that does not end after another has failed is given up, and named if a collective waits for it.
func TestProcessGivesUp(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		t.Run(fmt.Sprint(waiting), func(t *testing.T) {
			t.Parallel()
			var out notes
			p := testProcesses(t, 1, 3, waits{timeout: time.Second, grace: time.Second}, &out)[0]
			forever := make(chan struct{})
			hung := make(chan struct{})
			defer func() {
				close(forever)
				<-hung
			}()
			err := p.run("auto", func(w *world) error {
				if err := barrier(w); err != nil {
					return err
				}
				switch {
				case w.env.Rank == 1:
					defer close(hung)
					<-forever
					return nil
				case w.env.Rank == 2 && !waiting:
					return errors.New("disk on fire")
				}
				return barrier(w)
			})
			code, want := CodeFailed, "rank 2: disk on fire"
			if waiting {
				code, want = CodePeerLost, "rank 1"
			}
			if codeOf(err) != code || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("code %d, %v", codeOf(err), err)
			}
			if got := out.String(); got != "rank 1 did not end within 1s\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

// The processes of a job share keys: each reads what another puts, and a Get ends when a rank of another
// process fails.
func TestProcessKeyValue(t *testing.T) {
	all := testProcesses(t, 2, 2, waits{timeout: 20 * time.Second, grace: 5 * time.Second}, &notes{})
	errs := make([]error, len(all))
	var ended sync.WaitGroup
	for i, p := range all {
		ended.Go(func() {
			errs[i] = p.run("auto", func(w *world) error {
				if d := w.device(); d.Index != i || d.Count != 2 || d.Ranks != 2 || d.Rank != w.env.Rank%2 || d.Local != 2*i {
					t.Errorf("rank %d: %+v, %d", w.env.Rank, d, w.index)
				}
				kv := w.device().Store
				if err := kv.Put(fmt.Sprint(w.env.Rank), fmt.Append(nil, "value ", w.env.Rank)); err != nil {
					return err
				}
				for r := range 4 {
					if v, err := kv.Get(fmt.Sprint(r), time.Minute); err != nil || string(v) != fmt.Sprint("value ", r) {
						t.Errorf("rank %d reads %q, %v of %d", w.env.Rank, v, err, r)
					}
				}
				if err := barrier(w); err != nil {
					return err
				}
				if w.env.Rank == 3 {
					return errors.New("no device")
				}
				_, err := kv.Get("never", time.Minute)
				return err
			})
		})
	}
	ended.Wait()
	if fmt.Sprint(errs[1]) != "rank 3: no device" || codeOf(errs[0]) != CodePeerLost || !strings.Contains(fmt.Sprint(errs[0]), "rank 3 stopped: no device") {
		t.Errorf("%v; %v", errs[0], errs[1])
	}
}
