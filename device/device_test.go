package device

import (
	"math"
	"strings"
	"testing"

	"trireme/tensor"
)

func TestOpen(t *testing.T) {
	for _, name := range []string{"cpu", "meta"} {
		d, err := Open(name, Options{Threads: 2, Reserve: 1 << 24})
		if err != nil {
			t.Fatal(err)
		}
		if d.Name() != name {
			t.Errorf("opened %s for %s", d.Name(), name)
		}
		x := d.New(tensor.Activations, tensor.F32, 3, 5)
		d.MatMul(d.New(tensor.Activations, tensor.F32, 3, 3), x, x, tensor.MatMulOp{TransB: true})
		if got := d.Meter().Read().Live[tensor.Activations]; got != 4*(15+9) {
			t.Errorf("%s: %d live bytes", name, got)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	}
	if _, err := Open("abacus", Options{}); err == nil || !strings.Contains(err.Error(), `"abacus"`) {
		t.Errorf("unknown name: %v", err)
	}
}

// A failed Open returns a nil interface, not a nil pointer in one.
func TestOpenFails(t *testing.T) {
	for _, o := range []struct {
		name string
		opts Options
	}{{"none", Options{}}, {"cpu", Options{Shared: nil, Threads: -1, Reserve: -1}}} {
		d, err := Open(o.name, o.opts)
		if err != nil && d != nil {
			t.Errorf("%s: %v with %v", o.name, d, err)
		}
		if err == nil {
			d.Close()
		}
	}
}

func TestRanksPerProcess(t *testing.T) {
	for _, c := range []struct {
		name        Name
		ranks       int
		local, want int
	}{
		{CPU, 0, 8, 1}, {CPU, 4, 8, 4}, {CUDA, 0, 8, 8}, {CUDA, 1, 8, 1}, {XLA, 0, 1, 1}, {TPU, 16, 4, 4}, {CUDA, 3, 8, 3}, {CUDA, 0, 0, 1},
	} {
		if got := (Config{Name: c.name, ProcessRanks: c.ranks}).RanksPerProcess(c.local); got != c.want {
			t.Errorf("%s, ranks_per_process %d, %d ranks: %d per process, want %d", c.name, c.ranks, c.local, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := DefaultConfig()
		change(&c)
		return c
	}
	for _, c := range []struct {
		config Config
		err    string
	}{
		{DefaultConfig(), ""},
		{with(func(c *Config) { c.Name = CUDA }), ""},
		{with(func(c *Config) { c.Name = XLA }), "name xla needs the file of a plug-in. try: device.plugin=FILE.so"},
		{with(func(c *Config) { c.Name, c.Plugin = XLA, "p.so" }), ""},
		{with(func(c *Config) { c.ProcessRanks = -1 }), "ranks_per_process is -1"},
		{with(func(c *Config) { c.MemoryFraction = 0 }), "memory_fraction is 0"},
		{with(func(c *Config) { c.MemoryFraction = math.NaN() }), "memory_fraction is NaN"},
		{with(func(c *Config) { c.Threads = -1 }), "threads is -1"},
	} {
		err := c.config.Validate()
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.err)
		}
	}
}
