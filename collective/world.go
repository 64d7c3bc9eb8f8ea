package collective

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"trireme/tensor"
)

type world struct {
	rank, size int
	cfg        Config
	t          Transport

	mu         sync.Mutex
	groups     []*group
	formed     int
	closed     bool
	unreported bool           // the world has failed, and other ranks do not know
	wg         sync.WaitGroup // users of the transport
}

var _ World = (*world)(nil)

// NewWorld returns a World over a transport. World.Close closes the transport.
func NewWorld(rank, size int, t Transport, cfg Config) (World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if rank < 0 || rank >= size {
		return nil, fmt.Errorf("collective: rank %d of %d", rank, size)
	}
	return &world{rank: rank, size: size, cfg: cfg, t: t}, nil
}

func (w *world) Rank() int            { return w.rank }
func (w *world) Size() int            { return w.size }
func (w *world) Arena() *tensor.Arena { return w.t.Arena() }

func (w *world) Group(name string, ranks []int) (Group, error) {
	if len(ranks) == 0 || ranks[0] < 0 || ranks[len(ranks)-1] >= w.size || !slices.IsSorted(ranks) || len(slices.Compact(slices.Clone(ranks))) != len(ranks) {
		return nil, fmt.Errorf("collective: group %s: ranks %v are not ascending ranks below %d", name, ranks, w.size)
	}
	w.mu.Lock()
	id := w.formed
	w.formed++
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("collective: group %s: %w", name, ErrClosed)
	}
	if f := w.t.Failure().Get(); f != nil {
		return nil, fmt.Errorf("collective: group %s: %w", name, f)
	}
	me := slices.Index(ranks, w.rank)
	if me < 0 {
		return nil, nil
	}
	links, err := w.t.Join(id, name, slices.Clone(ranks), me)
	if err != nil {
		return nil, fmt.Errorf("collective: group %s: %w", name, err)
	}
	g := newGroup(w, id, name, slices.Clone(ranks), me, links)
	w.mu.Lock()
	w.groups = append(w.groups, g)
	w.mu.Unlock()
	return g, nil
}

// Abort delays Close: the transport must stay open until the failure is sent.
func (w *world) Abort(cause error) {
	if w.acquire() {
		defer w.release()
		w.abort(asFailure(cause, w.rank))
	}
}

// fail sets f here and on every rank that can be reached, unless the world has failed.
func (w *world) fail(f *Failure) {
	if w.t.Failure().Set(f) {
		w.t.SendFailure(f)
	}
}

// interrupt sets f on this rank only: the caller that ended its context knows the cause, and aborts.
func (w *world) interrupt(f *Failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unreported = w.t.Failure().Set(f) || w.unreported
}

// abort is fail after a possible interrupt.
func (w *world) abort(f *Failure) {
	w.mu.Lock()
	report := w.t.Failure().Set(f) || w.unreported
	w.unreported = false
	w.mu.Unlock()
	if report {
		w.t.SendFailure(f)
	}
}

// acquire registers a user of the transport. It returns false if the world is closed.
func (w *world) acquire() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.wg.Add(1)
	return true
}

func (w *world) release() { w.wg.Done() }

// Close fails pending operations and waits for them.
func (w *world) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	groups, quiet := w.groups, w.unreported
	w.mu.Unlock()
	if quiet || slices.ContainsFunc(groups, (*group).busy) {
		w.abort(&Failure{Kind: ErrClosed, Rank: w.rank, Text: fmt.Sprintf("rank %d closed its world with operations pending", w.rank), cause: errors.New("closed")})
	}
	w.t.Failure().Set(&Failure{Kind: ErrClosed, Rank: w.rank, Text: "the world is closed"})
	w.wg.Wait()
	return w.t.Close()
}
