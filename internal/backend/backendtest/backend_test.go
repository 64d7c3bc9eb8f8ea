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

// TestCPU: one thread and three, with and without memory that other ranks see, on each instruction
// set: the specification's numbers, and the same bits. Short, for the race detector, it is on the best
// instruction set alone: goroutines meet in the same way on all.
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
					t.Error("the bits are not those of 1 thread")
				}
			})
		}
	})
}

// oneGoroutine skips a test that the race detector has nothing to find in.
func oneGoroutine(t *testing.T) {
	if testing.Short() {
		t.Skip("short: one goroutine")
	}
}

// TestFallbacks: every composite as the formula that it has in operations of a core.
func TestFallbacks(t *testing.T) {
	oneGoroutine(t)
	b, err := cpu.New(cpu.Options{Threads: 1, Reserve: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	(&backendtest.Suite{}).Run(t, compose.NewBackend(b), backendtest.Options{})
}

// TestMeta: the same calls on shapes alone, with the counts of the cpu.
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

// TestNaive: the specification in its tensors' own types keeps the contract.
func TestNaive(t *testing.T) {
	oneGoroutine(t)
	(&backendtest.Suite{}).Run(t, naive.New(), backendtest.Options{})
}
