package tensor

import "sync"

// Category says what memory is for. Records of memory, measured and planned, use the same
// categories.
type Category uint8

// The categories.
const (
	Params      Category = iota // parameters at rest: this rank's part
	Grads                       // gradients at rest: this rank's part
	Master                      // parameters in float32 where those that compute are of another type: this rank's part
	Optimizer                   // moments
	Gathered                    // whole parameters of the units in flight
	Buckets                     // gradients on their way through a reduction
	Activations                 // what forward keeps for backward, and values in flight
	Logits                      // blocks of logits in the loss
	Workspace                   // inputs, tables and the step's numbers; scratch that an operation gives back before it returns is not counted
	Offloaded                   // what lies elsewhere, in files: in no total
	NumCategories
)

var categoryNames = [NumCategories]string{"parameters", "gradients", "master", "optimizer", "gathered", "buckets", "activations", "logits", "workspace", "offloaded"}

func (c Category) String() string { return categoryNames[c] }

// Meter counts live bytes by category, and their peaks. It is safe for concurrent use.
type Meter struct {
	mu         sync.Mutex
	live, peak [NumCategories]int64
	total, top int64
	moment     [NumCategories]int64 // live when total was top
}

// Add counts bytes, negative when they are given back.
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
		m.top, m.moment = m.total, m.live
	}
}

// Usage is a reading of a Meter, in bytes.
type Usage struct {
	Live, Peak           [NumCategories]int64
	LiveTotal, PeakTotal int64                // PeakTotal is the largest sum at one moment, not the sum of the peaks
	AtPeak               [NumCategories]int64 // what PeakTotal was made of
}

// Read returns the present figures.
func (m *Meter) Read() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Usage{Live: m.live, Peak: m.peak, LiveTotal: m.total, PeakTotal: m.top, AtPeak: m.moment}
}

// ResetPeak makes the present figures the peaks.
func (m *Meter) ResetPeak() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peak, m.top, m.moment = m.live, m.total, m.live
}
