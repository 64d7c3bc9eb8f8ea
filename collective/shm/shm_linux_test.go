package shm

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"trireme/collective"
	"trireme/collective/collectivetest"
)

func TestMain(m *testing.M) {
	collectivetest.Child(func(ctx context.Context, cfg collective.Config, rank, size int, x collective.Bootstrap) (collective.World, error) {
		return Open(ctx, Config{Config: cfg, Rank: rank, Size: size, Bootstrap: x, ArenaBytes: 1 << 30})
	})
	goleak.VerifyTestMain(m)
}

func worlds(t *testing.T, n int, cfg collective.Config) []collective.World {
	t.Helper()
	ws, errs := make([]collective.World, n), make([]error, n)
	x := collectivetest.NewBootstrap(n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ws[r], errs[r] = Open(context.Background(), Config{Config: cfg, Rank: r, Size: n, Bootstrap: x.Rank(r), ArenaBytes: 1 << 30})
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
	t.Run("spans", func(t *testing.T) { collectivetest.RunSpans(t, worlds, true) })
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors leaked", after-before)
	}
}

func TestProcesses(t *testing.T) { collectivetest.RunProcesses(t) }

// TestChannelLayout: slot data is aligned for elements of 8 bytes.
func TestChannelLayout(t *testing.T) {
	var c collective.ChannelState
	for i := range c.Slots {
		if off := unsafe.Offsetof(c.Slots) + uintptr(i)*unsafe.Sizeof(c.Slots[0]) + unsafe.Offsetof(c.Slots[0].Data); off%8 != 0 {
			t.Errorf("the data of slot %d is at offset %d", i, off)
		}
	}
	if unsafe.Sizeof(c)%8 != 0 {
		t.Errorf("a ChannelState has %d bytes", unsafe.Sizeof(c))
	}
}

// TestInvalidMemory: an address that is not a peer's memory is an error on every rank, without leaks.
func TestInvalidMemory(t *testing.T) {
	before := descriptors(t)
	other, err := unix.MemfdCreate("other", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	pid := uint32(os.Getpid())
	for name, b := range map[string][]byte{
		"no address": {1, 2, 3}, "another host": address{pid, 1, 1 << 20, "elsewhere"}.encode(), "no process": address{1 << 30, 1, 1 << 20, host()}.encode(),
		"no descriptor": address{pid, 99999, 1 << 20, host()}.encode(), "another file": address{pid, uint32(other), 1 << 20, host()}.encode(),
		"too large": address{pid, uint32(other), 1 << 60, host()}.encode(),
	} {
		x := collectivetest.NewBootstrap(2)
		reported := make(chan []byte, 1)
		go func() {
			_, _ = x.Rank(1).AllGather(context.Background(), "shm/memory", b)
			all, _ := x.Rank(1).AllGather(context.Background(), "shm/joined", nil)
			reported <- all[0]
		}()
		w, err := Open(context.Background(), Config{Rank: 0, Size: 2, Bootstrap: x.Rank(0), ArenaBytes: 1 << 20})
		if err == nil || w != nil || !strings.Contains(err.Error(), "rank 1") {
			t.Errorf("%s: error %v, want one that names rank 1", name, err)
		}
		if len(<-reported) == 0 {
			t.Errorf("%s: the other rank got no error", name)
		}
	}
	if after := descriptors(t); after > before+1 {
		t.Errorf("%d descriptors leaked", after-before-1)
	}
}

// TestAbortWhileClosing: ranks close their worlds while another's loss is reported, as at the end of a
// run.
func TestAbortWhileClosing(t *testing.T) {
	for range 300 {
		var all sync.WaitGroup
		for _, w := range worlds(t, 8, collective.Config{}) {
			all.Go(func() { w.Abort(errors.New("lost")) })
			all.Go(func() { w.Close() })
		}
		all.Wait()
	}
}

func descriptors(t *testing.T) int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}
