package device

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/nvml/nvmltest"
	"trireme/monitor"
)

func TestWatch(t *testing.T) {
	driver := nvmltest.Library(t)
	none := func(string) (string, bool) { return "", false }
	// first returns the first sample with a state of the driver.
	first := func(t *testing.T, env func(string) (string, bool), ranks int, state map[string]string) *monitor.Device {
		t.Helper()
		for k, v := range state {
			t.Setenv(k, v)
		}
		w := watch(driver, env, ranks, time.Hour)
		if w == nil {
			return nil
		}
		for w.last.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		if err := w.Close(); err != nil { // waits until the sample is complete
			t.Error(err)
		}
		d := w.Latest()
		if again := w.Latest(); again.Error != "" {
			t.Errorf("the error %q is returned twice", again.Error)
		}
		return d
	}
	d := first(t, none, 8, nil)
	if d.Name != "NVIDIA H200" || d.Count != 2 || math.Abs(d.Utilization-0.905) > 1e-12 || d.MemoryUsed != 5<<30 || d.Power != 1225 || d.PowerLimit != 1400 ||
		d.Temperature != 62 || d.SMClock != 1979 || !slices.Equal(d.Throttled, []string{"power cap", "hardware thermal"}) || d.Error != "" {
		t.Errorf("two cards: %+v", d)
	}
	if d := first(t, none, 1, nil); d.Count != 1 || d.Utilization != 0.9 || d.Power != 612.5 || d.Throttled != nil {
		t.Errorf("one rank: %+v", d)
	}
	second := func(name string) (string, bool) { return "GPU-aabb0001", name == "CUDA_VISIBLE_DEVICES" }
	if d := first(t, second, 1, nil); d.Name != "NVIDIA GeForce RTX 4090" {
		t.Errorf("CUDA_VISIBLE_DEVICES: %+v", d)
	}
	t.Run("bare", func(t *testing.T) {
		if d := first(t, none, 2, map[string]string{"FAKE_NVML_BARE": "1"}); !math.IsNaN(d.Utilization) || !math.IsNaN(d.Power) || d.MemoryUsed != 5<<30 {
			t.Errorf("%+v", d)
		}
	})
	t.Run("XID", func(t *testing.T) {
		if d := first(t, none, 2, map[string]string{"FAKE_NVML_XID": "48"}); !strings.Contains(d.Error, "GPU 1 (NVIDIA GeForce RTX 4090, 00000000:1C:00.0) reported XID 48: double-bit memory error") {
			t.Errorf("%+v", d)
		}
	})
	t.Run("no card", func(t *testing.T) {
		if d := first(t, none, 2, map[string]string{"FAKE_NVML_COUNT": "0"}); d != nil {
			t.Errorf("%+v", d)
		}
	})
	if w := watch("/none.so", none, 1, time.Hour); w != nil || w.Latest() != nil || w.Close() != nil {
		t.Error("a machine without a driver is watched")
	}
	if DefaultConfig().Watch(1) != nil {
		t.Error("a run on cpu watches GPUs")
	}
}
