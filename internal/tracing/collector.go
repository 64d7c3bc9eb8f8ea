package tracing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"trireme/trace"
)

// Store is the part of a job's store that a Collector needs.
type Store interface {
	Set(ctx context.Context, key string, value []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	// Clock returns what to add to this rank's clock for rank 0's, and the largest possible error.
	Clock(ctx context.Context) (offset, uncertainty time.Duration, err error)
}

// Config configures a Collector.
type Config struct {
	Rank, Size int
	Host       string
	Recorder   *trace.Recorder
	Windows    []Window
	Run        string           // the run's directory; the files are in its folder trace
	Store      Store            // nil for one rank
	Groups     map[string][]int // see SetGroups
}

// kept is the limit of spans that rank 0 keeps of all ranks of a window, and of one rank's.
const (
	kept     = 1 << 22
	keptRank = 1 << 18
)

// queued is the number of windows that may wait to be written: no step waits for them.
const queued = 64

// Collector keeps spans of one rank. The goroutine that trains calls its methods, except Notes.
type Collector struct {
	cfg     Config
	request *request // at rank 0
	ahead   []Window // that have not begun
	open    bool     // window runs
	window  Window
	spans   []trace.Span
	cursor  trace.Cursor
	buffer  []trace.Span
	dropped int64
	began   int // number of windows

	sends chan part
	done  sync.WaitGroup
	stop  context.CancelFunc

	mu    sync.Mutex
	notes []string
}

// part is a window's spans of this rank.
type part struct {
	window  Window
	number  int
	spans   []trace.Span
	dropped int64
}

// New starts a Collector.
func New(cfg Config) *Collector {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Collector{cfg: cfg, ahead: slices.Clone(cfg.Windows), sends: make(chan part, queued), stop: cancel}
	sortWindows(c.ahead)
	if cfg.Rank == 0 {
		c.request = watchRequest(cfg.Run, c.note)
	}
	c.done.Go(func() {
		for p := range c.sends {
			c.deliver(ctx, p)
		}
	})
	return c
}

func (c *Collector) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, "trace: "+fmt.Sprintf(format, args...))
}

// Notes returns the notes since the last call, one line each. Any goroutine may call it.
func (c *Collector) Notes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	notes := c.notes
	c.notes = nil
	return notes
}

// Request returns the number of steps that this rank asks to trace; 0 for none. A request is returned once.
func (c *Collector) Request() int64 {
	if c.request == nil || c.open || c.request.taken != nil {
		return 0
	}
	return c.request.take()
}

// SetGroups sets the ranks that this one communicates with, itself included, by the name of their group.
func (c *Collector) SetGroups(groups map[string][]int) { c.cfg.Groups = groups }

// Start notes the first step of the run, or of a resumed one.
func (c *Collector) Start(step int64) { c.begin(step) }

// AfterStep notes that a step and what follows it are done. requested sums Request over all ranks, for the same step
// on each. next is the first step that has not begun.
func (c *Collector) AfterStep(step, next, requested int64) {
	if requested > 0 {
		w := Window{First: next, Last: next + min(requested, MaxSteps) - 1, Perfetto: true}
		if c.request != nil && c.request.taken != nil {
			w.Chrome, w.Perfetto = c.request.taken.Chrome, c.request.taken.Perfetto
			c.request.taken = nil
		}
		c.ahead = append(c.ahead, w)
		sortWindows(c.ahead)
	}
	if c.open {
		c.collect()
		if step >= c.window.Last {
			c.finish()
		}
	}
	c.begin(step + 1)
}

func sortWindows(w []Window) {
	slices.SortStableFunc(w, func(a, b Window) int { return cmp.Compare(a.First, b.First) })
}

// begin opens the next window if step is in it. Spans of a step that is in flight may be recorded already.
func (c *Collector) begin(step int64) {
	if c.open {
		return
	}
	for len(c.ahead) > 0 && c.ahead[0].Last < step {
		if c.cfg.Rank == 0 {
			c.note("no trace of steps %d to %d: the next step is %d", c.ahead[0].First, c.ahead[0].Last, step)
		}
		c.ahead = c.ahead[1:]
	}
	if len(c.ahead) == 0 || c.ahead[0].First > step {
		return
	}
	c.window, c.ahead, c.open = c.ahead[0], c.ahead[1:], true
	c.window.First = max(c.window.First, step)
	c.spans, c.cursor = nil, trace.Cursor{}
	c.collect()
	c.dropped = 0 // those lost were of earlier steps
}

// collect copies the spans of the window since the last call.
func (c *Collector) collect() {
	var lost int64
	c.buffer, c.cursor, lost = c.cfg.Recorder.AppendSince(c.buffer[:0], c.cursor)
	c.dropped += lost
	limit := min(keptRank, kept/c.cfg.Size)
	for _, s := range c.buffer {
		switch {
		case s.Step < c.window.First || s.Step > c.window.Last:
		case len(c.spans) >= limit:
			c.dropped++
		default:
			c.spans = append(c.spans, s)
		}
	}
}

// finish passes the window's spans on.
func (c *Collector) finish() {
	c.open = false
	c.sends <- part{window: c.window, number: c.began, spans: c.spans, dropped: c.dropped}
	c.began++
	c.spans = nil
}

// closeWait is the time for which Close waits for the last window's file.
const closeWait = 30 * time.Second

// Close ends a window that runs at its last step done, and waits for the files. Notes has what came of it, and the
// windows that the run did not reach.
func (c *Collector) Close() {
	if c.open {
		c.collect()
		last := c.window.First - 1
		for _, s := range c.spans {
			if s.Kind == trace.Step {
				last = max(last, s.Step)
			}
		}
		c.window.Last = max(last, c.window.First)
		c.finish()
	}
	for _, w := range c.ahead {
		if c.cfg.Rank == 0 {
			c.note("no trace of steps %d to %d: the run ended before them", w.First, w.Last)
		}
	}
	close(c.sends)
	if c.request != nil {
		c.request.close()
	}
	ended := make(chan struct{})
	go func() {
		c.done.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeWait):
		c.stop()
		<-ended
	}
	c.stop()
}
