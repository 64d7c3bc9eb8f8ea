package host

import (
	"os"
	"path"
	"strings"
	"time"
)

// Clock is the state of the host's clock.
type Clock struct {
	Synchronized bool          `json:"synchronized"` // by NTP or the like, as the kernel has it
	Known        bool          `json:"known"`        // Synchronized was read
	Source       string        `json:"source,omitempty"`
	Drift        time.Duration `json:"drift_ns"` // of the wall clock against the monotonic one, within Span
	Span         time.Duration `json:"span_ns"`
}

// clockSpan is the time over which the two clocks are compared.
const clockSpan = 100 * time.Millisecond

func readClock(root string) Clock {
	c := Clock{}
	c.Synchronized, c.Known = synchronized()
	if b, err := os.ReadFile(path.Join(root, "sys/devices/system/clocksource/clocksource0/current_clocksource")); err == nil {
		c.Source = strings.TrimSpace(string(b))
	}
	began := time.Now()
	time.Sleep(clockSpan)
	now := time.Now()
	c.Span = now.Sub(began)
	c.Drift = now.Round(0).Sub(began.Round(0)) - c.Span // Round(0) removes the monotonic reading
	return c
}
