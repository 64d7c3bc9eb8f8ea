package monitor

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestHost(t *testing.T) {
	dir := t.TempDir()
	w := watchHost("/", dir, 20*time.Millisecond)
	var h *Host
	for range 500 {
		if h = w.Latest(); h != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.Close()
	if h == nil || h.CPU == nil || h.Load == nil || h.MemoryAvailable == nil || h.DiskFree == nil || h.NetReceive == nil || h.NetSend == nil {
		t.Fatalf("%+v", h)
	}
	if *h.MemoryAvailable < 1<<20 || *h.DiskFree <= 0 {
		t.Errorf("memory %v, disk %v", *h.MemoryAvailable, *h.DiskFree)
	}
}

func TestHostCounters(t *testing.T) {
	before := counters{at: time.Unix(100, 0), busy: 10, load: 1, available: 5, diskRead: 0, diskWrite: 1000, netReceived: -1, netSent: 7}
	now := counters{at: time.Unix(102, 0), busy: 13, load: 2.5, available: -1, diskRead: 4096, diskWrite: 900, netReceived: 5, netSent: 7}
	h := now.since(before)
	if *h.CPU != 1.5 || *h.Load != 2.5 || *h.DiskRead != 2048 || *h.NetSend != 0 {
		t.Errorf("%+v", h)
	}
	if h.MemoryAvailable != nil || h.DiskWrite != nil || h.NetReceive != nil {
		t.Errorf("unknown values: %+v", h)
	}
}

func TestReadCounters(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/stat":    "cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 2 3 4\n",
		"proc/loadavg": "1.25 0.5 0.25 1/100 1234\n",
		"proc/net/dev": "Inter-|   Receive\n face |bytes\n    lo: 5 0 0 0 0 0 0 0 5 0 0 0 0 0 0 0\n  eth0: 100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := readCounters(root, filepath.Join(root, "missing"))
	if c.busy != 1.71 || c.load != 1.25 || c.netReceived != 100 || c.netSent != 200 || c.diskRead != -1 || c.available != -1 {
		t.Errorf("%+v", c)
	}
	if r, w := parseDisk([]byte("  1 2 8 4 5 6 16 8\n")); r != 4096 || w != 8192 {
		t.Errorf("disk %v %v", r, w)
	}
}

// FuzzHost: values are -1 or numbers that a record can have.
func FuzzHost(f *testing.F) {
	f.Add([]byte("cpu  100 20 30 4000 500 6 7 8 9 10\n"))
	f.Add([]byte("  eth0: 100 1 0 0 0 0 0 0 200 1 0 0\n"))
	f.Add([]byte("1.25 0.5"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, out := parseNetwork(b)
		r, w := parseDisk(b)
		for _, v := range []float64{parseBusy(b), parseLoad(b), in, out, r, w} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 && v != -1 {
				t.Fatal(v)
			}
		}
	})
}
