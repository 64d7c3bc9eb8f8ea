package checkpoint

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

// Saving is a save in progress. A background goroutine of each rank writes its file, then one of rank 0
// commits; ranks exchange messages only in Start and Next, which all ranks call at the same points of their
// program. A Saving is used by one goroutine.
//
//	v, err := store.Start(ctx, meta, items, buf) // all ranks
//	v.Hold()                                     // before the items change
//	v.Votes()                                    // from time to time: to be summed over ranks
//	v.Next(ctx, false)                           // all ranks, when the sum has reached their number
//	v.Next(ctx, true)                            // or, all ranks at any time: waits
type Saving struct {
	s         *Store
	meta      Meta
	protected int
	leaders   []int  // of each rank
	hostSave  string // manifest.HostSave
	tmp       string
	w         *writer
	buf       []byte
	ctx       context.Context
	cancel    context.CancelCauseFunc
	task      *task // of this rank in this phase; nil: not started
	held      bool
	committed bool // the second phase: leaders commit
	saved     SaveResult
}

// Written says how a rank wrote its part of a checkpoint.
type Written struct {
	Bytes      int64     // of this rank
	Began, End time.Time // of writing, without the commit
}

// errAborted is why a rank stops writing after another rank's failure.
var errAborted = errors.New("stopped, because another rank failed")

// task is work in the background.
type task struct {
	done     chan struct{}
	err      error
	panicked any
}

func start(f func() error) *task {
	t := &task{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer func() { t.panicked = recover() }()
		t.err = f()
	}()
	return t
}

// wait returns the error of the work. A panic continues in the caller.
func (t *task) wait() error {
	<-t.done
	if t.panicked != nil {
		panic(t.panicked)
	}
	return t.err
}

// ended reports whether the work has ended.
func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// Start begins a save, with Save's conditions. Writing reads the items' memory until Hold, which copies to buf
// what is not yet written. buf is in use until the save ends. Items in the memory of a device are not
// read before Hold or Next. ctx applies to the full save.
func (s *Store) Start(ctx context.Context, meta Meta, items []Item, buf []byte) (*Saving, error) {
	s.memory.sync()
	mine := proposal{Step: meta.Step, Type: s.cfg.StateDictType, Held: describe(items), Leader: s.leader}
	var err error
	if s.leads() {
		mine.Dir, err = s.begin(ctx, meta)
	}
	if s.host != nil && s.ranks.Rank() == 0 {
		mine.Meta = &meta
	}
	onDevice := false
	for _, it := range items {
		if err == nil {
			err = it.check(s.memory)
		}
		onDevice = onDevice || err == nil && it.Box.Elems() > 0 && it.Data.Buffer().Bytes == nil && it.Data.Buffer().Backing == nil
	}
	tmp := mine.Dir
	all, err := agree(ctx, s.ranks, mine, err)
	if err != nil {
		return nil, s.abandon(ctx, tmp, err)
	}
	if all[0].Meta != nil {
		meta = *all[0].Meta
	}
	v := &Saving{s: s, meta: meta, protected: s.protected, tmp: all[s.leader].Dir, buf: buf}
	if s.host != nil {
		v.hostSave = filepath.Base(all[0].Dir)
	}
	for _, p := range all {
		v.leaders = append(v.leaders, p.Leader)
	}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	v.w, err = s.writer(s.fs.within(v.ctx), v.tmp, items, all)
	switch {
	case err != nil: // for all ranks, in Next
		v.w, v.task = nil, start(func() error { return err })
	case !onDevice:
		v.begin()
	}
	return v, nil
}

// begin starts writing.
func (v *Saving) begin() {
	if v.task != nil {
		return
	}
	for _, c := range v.w.chunks {
		v.saved.Written.Bytes += int64(c.bytes())
	}
	v.saved.Written.Began = time.Now()
	v.task = start(func() error {
		defer func() { v.saved.Written.End = time.Now() }()
		defer v.w.end()
		return v.w.run(v.ctx)
	})
}

// Hold returns when the items may change. It copies their unwritten parts as far as buf has space, and waits
// until the others are written. Later calls do nothing.
func (v *Saving) Hold() {
	if v.held || v.w == nil {
		return
	}
	v.held = true
	if err := v.w.hold(v.buf); err != nil {
		v.cancel(err)
	}
	v.begin()
	v.w.settle()
}

// Votes returns this rank's part of a sum over all ranks. If it reaches the number of ranks, all ranks are done or one
// has failed: all call Next.
func (v *Saving) Votes() int64 {
	switch {
	case v.task == nil || !v.task.ended() || v.committed && !v.s.leads():
		return 0
	case v.task.err == nil && v.task.panicked == nil && !v.committed:
		return 1
	}
	return int64(v.s.ranks.Size())
}

// Next ends a phase, of two, and reports whether the save has ended. All ranks call it. If wait is false, a rank
// that still writes stops: another has failed.
func (v *Saving) Next(ctx context.Context, wait bool) (saved SaveResult, ended bool, err error) {
	v.begin()
	if !wait && !v.committed && !v.task.ended() {
		v.cancel(errAborted)
	}
	err = v.task.wait()
	if !v.committed {
		var out written
		if v.w != nil {
			out = v.w.out
		}
		parts, err := agree(ctx, v.s.ranks, out, err)
		if err != nil {
			return v.fail(ctx, err)
		}
		v.committed = true
		v.task = start(func() error {
			if v.s.leads() {
				return v.commit(parts)
			}
			return nil
		})
		return SaveResult{}, false, nil
	}
	all, err := agree(ctx, v.s.ranks, published{v.saved.Path, v.saved.Bytes}, err)
	if err != nil {
		return v.fail(ctx, err)
	}
	v.cancel(nil)
	v.saved.Path, v.saved.Bytes, v.s.good = all[0].Path, 0, v.meta.Step
	for _, p := range all { // of leaders
		v.saved.Bytes += p.Bytes
	}
	return v.saved, true, nil
}

// published is a leader's result of a save.
type published struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

func (v *Saving) commit(parts []written) error {
	for rank, leader := range v.leaders {
		if leader != v.s.leader {
			parts[rank] = written{}
		}
	}
	done, err := v.s.commit(v.ctx, v.tmp, v.hostSave, v.meta, v.w.plan, parts)
	if err == nil {
		v.saved.Path, v.saved.Bytes = done.Path, done.Bytes
		v.saved.Notices = append(done.Notices, v.s.retain(v.ctx, v.meta.Step, v.protected)...)
	}
	return err
}

func (v *Saving) fail(ctx context.Context, err error) (SaveResult, bool, error) {
	v.cancel(nil)
	return SaveResult{}, true, v.s.abandon(ctx, v.tmp, err)
}

// Wait ends the save. All ranks call it.
func (v *Saving) Wait(ctx context.Context) (SaveResult, error) {
	for {
		if saved, ended, err := v.Next(ctx, true); ended {
			return saved, err
		}
	}
}

// Abort ends this rank's background work, without other ranks: writing stops, and a commit to a file system is finished.
// The next save removes the files of the attempt.
func (v *Saving) Abort() {
	v.cancel(errAborted)
	if v.task != nil {
		<-v.task.done
	}
}
