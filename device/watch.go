package device

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"trireme/internal/nvml"
	"trireme/internal/pjrt/plugin"
	"trireme/monitor"
)

// watchEvery is the interval of samples. A sample takes a few milliseconds of the driver's time.
const watchEvery = 2 * time.Second

// Watcher samples the GPUs of this machine in the background.
type Watcher struct {
	lib    *nvml.Library
	cards  []nvml.Card
	events *nvml.Events // nil if the GPUs report none
	last   atomic.Pointer[monitor.Device]
	mu     sync.Mutex
	err    string // not yet returned by Latest
	stop   chan struct{}
	done   chan struct{}
}

// Watch starts to sample the NVIDIA GPUs that ranks on this machine use. It returns nil for other devices and
// without a driver.
func (c Config) Watch(ranks int) *Watcher {
	if c.Name != CUDA && (c.Name != XLA || plugin.KindOf(c.Plugin) != plugin.CUDA) {
		return nil
	}
	return watch(nvml.File, plugin.Machine().LookupEnv, ranks, watchEvery)
}

func watch(driver string, env func(string) (string, bool), ranks int, every time.Duration) *Watcher {
	l, err := nvml.Open(driver)
	if err != nil {
		return nil // a run works without
	}
	cards, _ := l.Cards() // those that can be read
	value, set := env("CUDA_VISIBLE_DEVICES")
	cards = nvml.Visible(cards, value, set)
	cards = cards[:min(max(1, ranks), len(cards))]
	if len(cards) == 0 {
		_ = l.Close()
		return nil
	}
	w := &Watcher{lib: l, cards: cards, events: l.WatchXIDs(cards), stop: make(chan struct{}), done: make(chan struct{})}
	go w.run(every)
	return w
}

// Latest returns the last sample, nil before the first. Each error is returned once. A nil Watcher has no
// samples.
func (w *Watcher) Latest() *monitor.Device {
	if w == nil {
		return nil
	}
	last := w.last.Load()
	if last == nil {
		return nil
	}
	d := *last
	w.mu.Lock()
	d.Error, w.err = w.err, ""
	w.mu.Unlock()
	return &d
}

// Close ends the samples.
func (w *Watcher) Close() error {
	if w == nil {
		return nil
	}
	close(w.stop)
	<-w.done
	if w.events != nil {
		w.events.Close()
	}
	return w.lib.Close()
}

func (w *Watcher) run(every time.Duration) {
	defer close(w.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		d, err := w.sample()
		if w.events != nil {
			err = errors.Join(err, w.events.Next())
		}
		w.last.Store(d)
		if err != nil {
			w.mu.Lock()
			w.err = strings.ReplaceAll(err.Error(), "\n", "; ")
			w.mu.Unlock()
		}
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
	}
}

// sample reads all cards. The error is of those that cannot be read.
func (w *Watcher) sample() (*monitor.Device, error) {
	d := &monitor.Device{Name: w.cards[0].Name, Count: len(w.cards), Power: math.NaN(), PowerLimit: math.NaN(), Temperature: math.NaN(), SMClock: math.NaN(), Utilization: math.NaN()}
	var errs []error
	var use mean
	for _, c := range w.cards {
		r, err := w.lib.Read(c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		use.add(r.Utilization)
		if r.MemoryUsed > d.MemoryUsed {
			d.MemoryUsed, d.MemoryTotal = r.MemoryUsed, r.MemoryTotal
		}
		add := func(a, b float64) float64 { return a + b }
		combine(&d.Power, r.Power, add)
		combine(&d.PowerLimit, r.PowerLimit, add)
		combine(&d.Temperature, r.Temperature, math.Max)
		combine(&d.SMClock, r.SMClock, math.Min)
		for _, why := range r.Throttled {
			if !slices.Contains(d.Throttled, why) {
				d.Throttled = append(d.Throttled, why)
			}
		}
	}
	d.Utilization = use.value()
	return d, errors.Join(errs...)
}

// combine sets to to f of both values, or to the one that is known.
func combine(to *float64, v float64, f func(a, b float64) float64) {
	switch {
	case math.IsNaN(*to):
		*to = v
	case !math.IsNaN(v):
		*to = f(*to, v)
	}
}

// mean is a mean of known values.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) {
	if !math.IsNaN(v) {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

func (m mean) value() float64 { return m.sum / float64(m.n) } // NaN of none
