package backendtest_test

import (
	"testing"

	"trireme/internal/backend/backendtest"
	"trireme/internal/backend/cpu"
	"trireme/internal/backend/meta"
	"trireme/internal/backend/naive"
	"trireme/internal/impl"
	"trireme/tensor"
	"trireme/tensor/compose"
)

// TestCPU runs the suite with one thread and three, with and without shared memory, on each
// instruction set; all must give the same bits. With -short, for the race detector, it runs only
// the best instruction set, since all share the goroutines' code.
func TestCPU(t *testing.T) {
	suite := &backendtest.Suite{}
	each := impl.Each[*testing.T]
	if testing.Short() {
		each = func(t *testing.T, f func(*testing.T)) { f(t) }
	}
	each(t, func(t *testing.T) {
		first := ""
		for _, o := range []struct {
			name    string
			threads int
			shared  bool
		}{{"1 thread", 1, false}, {"3 threads, shared", 3, true}} {
			t.Run(o.name, func(t *testing.T) {
				opts := cpu.Options{Threads: o.threads, Reserve: 1 << 30}
				if o.shared {
					a, err := tensor.Reserve(1 << 28)
					if err != nil {
						t.Fatal(err)
					}
					defer a.Close()
					opts.Shared = a
				}
				b, err := cpu.New(opts)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				digest := suite.Run(t, b, backendtest.Options{})
				if first == "" {
					first = digest
				}
				if digest != first {
					t.Error("bits differ from 1 thread")
				}
			})
		}
	})
}

// oneGoroutine skips a test under the race detector that has no concurrency.
func oneGoroutine(t *testing.T) {
	if testing.Short() {
		t.Skip("short: one goroutine")
	}
}

// TestFallbacks runs every composite as its formula in core operations.
func TestFallbacks(t *testing.T) {
	oneGoroutine(t)
	b, err := cpu.New(cpu.Options{Threads: 1, Reserve: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	(&backendtest.Suite{}).Run(t, compose.NewBackend(b), backendtest.Options{})
}

// TestMeta compares the meter with the cpu's.
func TestMeta(t *testing.T) {
	oneGoroutine(t)
	b, err := cpu.New(cpu.Options{Threads: 1, Reserve: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	suite := &backendtest.Suite{}
	suite.Run(t, b, backendtest.Options{CountsOnly: true})
	suite.Run(t, meta.New(), backendtest.Options{CountsOnly: true})
}

// TestNaive runs the specification in the tensors' own types.
func TestNaive(t *testing.T) {
	oneGoroutine(t)
	(&backendtest.Suite{}).Run(t, naive.New(), backendtest.Options{})
}
