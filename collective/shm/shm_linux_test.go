package shm

import (
	"context"
	"os"
	"sync"
	"testing"
	"unsafe"

	"go.uber.org/goleak"

	"trireme/collective"
	"trireme/collective/collectivetest"
)

func TestMain(m *testing.M) {
	collectivetest.Child(func(ctx context.Context, cfg collective.Config, rank, size int, x collective.Exchange) (collective.World, error) {
		return Open(ctx, Config{Config: cfg, Rank: rank, Size: size, Exchange: x, ArenaBytes: 1 << 30})
	})
	goleak.VerifyTestMain(m)
}

func worlds(t *testing.T, n int, cfg collective.Config) []collective.World {
	t.Helper()
	ws, errs := make([]collective.World, n), make([]error, n)
	x := collectivetest.NewExchange(n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ws[r], errs[r] = Open(context.Background(), Config{Config: cfg, Rank: r, Size: n, Exchange: x.Rank(r), ArenaBytes: 1 << 30})
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return ws
}

func TestSuite(t *testing.T) {
	before := descriptors(t)
	t.Run("worlds", func(t *testing.T) { collectivetest.Run(t, worlds) })
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors were left open", after-before)
	}
}

func TestProcesses(t *testing.T) { collectivetest.RunProcesses(t) }

// TestCellLayout: contributions in a slot are read as numbers of up to eight bytes.
func TestCellLayout(t *testing.T) {
	var c collective.Cell
	for i := range c.Slots {
		if off := unsafe.Offsetof(c.Slots) + uintptr(i)*unsafe.Sizeof(c.Slots[0]) + unsafe.Offsetof(c.Slots[0].Mail); off%8 != 0 {
			t.Errorf("slot %d begins its contribution at %d", i, off)
		}
	}
	if unsafe.Sizeof(c)%8 != 0 {
		t.Errorf("a cell has %d bytes", unsafe.Sizeof(c))
	}
}

func descriptors(t *testing.T) int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}
