package pjrt_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"trireme/internal/pjrt"
)

// The CPU plug-in hangs with 50 executions in progress: Execute waits.
func TestInFlight(t *testing.T) {
	const n, rounds = 4, 300
	c := client(t, n)
	e := compile(t, c, sum(n), pjrt.CompileOptions{Replicas: n})
	var wg sync.WaitGroup
	for _, d := range c.Devices() {
		wg.Go(func() {
			x, err := d.Upload(pjrt.F32, []int{4}, encode(1, 0, 0, 0))
			if err != nil {
				t.Error(err)
				return
			}
			for range rounds { // each result is the next argument, nothing is awaited
				out, done, err := e.Execute(d, []*pjrt.Buffer{x}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				done.Close()
				x.Close()
				x = out[0]
			}
			x.Close()
		})
	}
	wg.Wait()
}

// Two programs with collectives run at once on the same devices, each driven by its own goroutines.
func TestTwoPrograms(t *testing.T) {
	const n, rounds = 4, 200
	c := client(t, n)
	var wg sync.WaitGroup
	for p := range 2 {
		e := compile(t, c, sum(n), pjrt.CompileOptions{Replicas: n})
		for r, d := range c.Devices() {
			wg.Go(func() {
				for i := range rounds {
					x, err := d.Upload(pjrt.F32, []int{4}, encode(float32(r), float32(p), float32(i), 1))
					if err != nil {
						t.Error(err)
						return
					}
					out, done, err := e.Execute(d, []*pjrt.Buffer{x}, nil)
					if err != nil {
						t.Error(err)
						return
					}
					got := make([]byte, 16)
					if err := out[0].Download(got); err != nil || !slices.Equal(decode(got), []float32{6, 4 * float32(p), 4 * float32(i), 4}) {
						t.Error(p, r, i, decode(got), err)
					}
					x.Close()
					out[0].Close()
					done.Close()
				}
			})
		}
	}
	wg.Wait()
}

// Executions leave nothing behind.
func TestLeak(t *testing.T) {
	rounds := 10000
	if testing.Short() {
		rounds = 500
	}
	c := client(t, 1)
	d := c.Devices()[0]
	e := compile(t, c, matmul, pjrt.CompileOptions{Params: matmulParams})
	a, b, x := upload(t, d, []int{2, 3}, 1, 2, 3, 4, 5, 6), upload(t, d, []int{3, 2}, 0, 0, 0, 0, 0, 0), upload(t, d, []int{2, 2}, 1, 2, 3, 4)
	open := c.Live()
	state := x
	for i := range rounds {
		out, done, err := e.Execute(d, []*pjrt.Buffer{a, b, state}, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		state.Close()
		state = out[0]
		out[1].Close()
		done.Close()
		if live := c.Live(); live > open+1+pjrt.InFlight {
			t.Fatalf("after %d executions: %d objects are open, %d before", i, live, open)
		}
	}
	if got := download(t, state); !slices.Equal(got, []float32{1, 2, 3, 4}) {
		t.Error(got)
	}
	state.Close()
	for _, b := range []*pjrt.Buffer{a, b, x} {
		b.Close()
	}
	e.Close()
	c.Close()
	if n := c.Live(); n != 0 {
		t.Errorf("%d objects are open", n)
	}
}

// Buffers, events and programs are closed while other goroutines use them.
func TestCloseWhileUsed(t *testing.T) {
	c := client(t, 1)
	d := c.Devices()[0]
	for range 50 {
		e := compile(t, c, matmul, pjrt.CompileOptions{Params: matmulParams})
		a, b := upload(t, d, []int{2, 3}, 1, 2, 3, 4, 5, 6), upload(t, d, []int{3, 2}, 0, 0, 0, 0, 0, 0)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				x, err := d.Upload(pjrt.F32, []int{2, 2}, encode(1, 2, 3, 4))
				if err != nil {
					t.Error(err)
					return
				}
				defer x.Close()
				for range 20 {
					out, done, err := e.Execute(d, []*pjrt.Buffer{a, b, x}, []int{2})
					if err != nil {
						return // closed
					}
					done.Close()
					out[0].Deleted()
					out[1].Close()
					_ = out[0].Download(make([]byte, 16))
					out[0].Close()
				}
			})
		}
		wg.Go(func() {
			runtime.Gosched()
			for _, i := range rand.Perm(3) {
				[]func(){a.Close, b.Close, e.Close}[i]()
			}
		})
		wg.Wait()
	}
}

// The destination of a download stays alive although nobody waits for it.
func TestDownloadForgotten(t *testing.T) {
	c := client(t, 1)
	b, err := c.Devices()[0].Upload(pjrt.U8, []int{1 << 20}, make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 50 {
		e, err := b.DownloadAsync(make([]byte, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		if rand.IntN(2) == 0 {
			e.Close()
		}
		runtime.GC()
	}
	e, err := b.DownloadAsync(make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for ready := false; !ready; runtime.Gosched() {
		if ready, err = e.Ready(); err != nil {
			t.Fatal(err)
		}
	}
}
