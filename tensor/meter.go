package tensor

import "sync"

// Category is a use of memory. Plans and measurements share the categories.
type Category uint8

const (
	Params      Category = iota // this rank's resident parameters
	Grads                       // this rank's resident gradients
	Master                      // this rank's float32 master weights
	Optimizer                   // optimizer state
	Gathered                    // all-gathered parameters
	Buckets                     // gradients in reduction
	Activations                 // values saved for backward, and values in flight
	Logits                      // blocks of logits in the loss
	Workspace                   // inputs, tables and scalars, without scratch inside an operation
	Snapshot                    // the copy for a checkpoint that is written in the background
	Checkpoints                 // this rank's part of those in the host's memory, when there are two; outside the arena
	Offloaded                   // in files; in no total
	NumCategories
)

var categoryNames = [NumCategories]string{"parameters", "gradients", "master", "optimizer", "gathered", "buckets", "activations", "logits", "workspace", "snapshot", "checkpoints", "offloaded"}

func (c Category) String() string { return categoryNames[c] }

// Meter counts live and peak bytes by category. It is safe for concurrent use.
type Meter struct {
	mu         sync.Mutex
	live, peak [NumCategories]int64
	total, top int64
	atPeak     [NumCategories]int64 // live at the peak
}

// Add counts bytes; negative numbers are freed bytes.
func (m *Meter) Add(c Category, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[c] += bytes
	m.peak[c] = max(m.peak[c], m.live[c])
	if c == Offloaded {
		return
	}
	m.total += bytes
	if m.total > m.top {
		m.top, m.atPeak = m.total, m.live
	}
}

// Usage is a reading of a Meter, in bytes.
type Usage struct {
	Live, Peak           [NumCategories]int64
	LiveTotal, PeakTotal int64                // peak of the sum, not sum of the peaks
	AtPeak               [NumCategories]int64 // live bytes at PeakTotal
}

// Read returns the current usage.
func (m *Meter) Read() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Usage{Live: m.live, Peak: m.peak, LiveTotal: m.total, PeakTotal: m.top, AtPeak: m.atPeak}
}

// ResetPeak sets the peaks to the live bytes.
func (m *Meter) ResetPeak() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak, m.top, m.atPeak = m.live, m.total, m.live
}
