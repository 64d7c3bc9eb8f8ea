package monitor

import (
	"sync/atomic"
	"time"

	"trireme/internal/disk"
)

// hostEvery is the time between two samples of a Host.
const hostEvery = 2 * time.Second

// HostWatcher samples this machine in the background. It never delays its callers: a sample that hangs, on a lost file
// system, only leaves the last one.
type HostWatcher struct {
	last atomic.Pointer[Host]
	stop chan struct{}
	done chan struct{}
}

// WatchHost starts to sample, with the disk of a run's directory.
func WatchHost(dir string) *HostWatcher { return watchHost("/", dir, hostEvery) }

func watchHost(root, dir string, every time.Duration) *HostWatcher {
	w := &HostWatcher{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		before := readCounters(root, dir)
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
			now := readCounters(root, dir)
			h := now.since(before)
			if n := disk.Free(dir); n > 0 {
				h.DiskFree = number(float64(n))
			}
			before = now
			w.last.Store(h)
		}
	}()
	return w
}

// Latest returns the last sample, nil before the first.
func (w *HostWatcher) Latest() *Host { return w.last.Load() }

// Close ends the samples. It waits for a running one for up to a second.
func (w *HostWatcher) Close() {
	close(w.stop)
	select {
	case <-w.done:
	case <-time.After(time.Second):
	}
}

// counters are the counters of a machine at one time; negative ones are unknown.
type counters struct {
	at                   time.Time
	busy                 float64 // seconds of all processors
	load, available      float64
	diskRead, diskWrite  float64 // bytes
	netReceived, netSent float64 // bytes
}

// unknownCounters returns counters without values.
func unknownCounters() counters { return counters{time.Now(), -1, -1, -1, -1, -1, -1, -1} }

// since returns the state of the machine between two readings.
func (c counters) since(before counters) *Host {
	s := c.at.Sub(before.at).Seconds()
	rate := func(now, then float64) *float64 {
		if now < then || then < 0 || s <= 0 { // unknown, or a device that was removed
			return nil
		}
		return number((now - then) / s)
	}
	return &Host{
		CPU: rate(c.busy, before.busy), Load: number(c.load), MemoryAvailable: number(c.available),
		DiskRead: rate(c.diskRead, before.diskRead), DiskWrite: rate(c.diskWrite, before.diskWrite),
		NetReceive: rate(c.netReceived, before.netReceived), NetSend: rate(c.netSent, before.netSent),
	}
}

// number returns nil for an unknown value.
func number(v float64) *float64 {
	if v < 0 {
		return nil
	}
	return &v
}
