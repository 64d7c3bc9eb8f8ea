package train

import (
	"fmt"

	"trireme/autograd"
	"trireme/fault"
	"trireme/internal/disk"
	"trireme/tensor"
	"trireme/trace"
)

// diskOffload keeps saved layer inputs in a file. Each input is copied to one of two buffers and
// written in the background; in the backward pass the next input is read ahead while the top one
// is in use, so memory is that of two inputs. A backend without storage has no file.
type diskOffload struct {
	b        tensor.Backend
	f        *disk.File // nil on a backend without storage
	sections []reserved // by depth
	trace    *trace.Recorder
	depth    int
	bytes    int // of each input
	buffers  [2]buffer
	err      error
}

type reserved struct {
	at  *disk.Section
	buf *tensor.Buffer // accounts for its bytes
}

// buffer holds every other input.
type buffer struct {
	buf  *tensor.Tensor
	busy *disk.Transfer // nil if idle
}

var _ autograd.OffloadStack = (*diskOffload)(nil)

func newDiskOffload(b tensor.Backend, dir string) (*diskOffload, error) {
	s := &diskOffload{b: b}
	if tensor.IsMeta(b) {
		return s, nil
	}
	if tensor.Static(b) {
		return nil, fault.Try(fmt.Errorf("train: activation_checkpointing.store: disk needs file transfers within a step, but %s compiles the step as a whole", b.Name()), "%s", fault.Set("activation_checkpointing.store", "memory"))
	}
	var err error
	if s.f, err = disk.Create(dir); err != nil {
		return nil, fmt.Errorf("train: activation_checkpointing.store_path: %w", err)
	}
	return s, nil
}

func (s *diskOffload) buffer(depth int) *buffer { return &s.buffers[depth%len(s.buffers)] }

// Push saves a copy of x.
func (s *diskOffload) Push(x *tensor.Tensor) {
	if s.depth == 0 {
		s.bytes = x.Bytes()
	}
	if x.Bytes() != s.bytes {
		panic(fmt.Sprintf("train: saved input %v differs in size from the others: %d bytes", x, s.bytes))
	}
	at := s.buffer(s.depth)
	s.wait(at)
	if at.buf == nil {
		at.buf = s.b.New(tensor.Activations, x.DType(), x.Shape()...)
	}
	s.b.Copy(at.buf, x)
	s.reserve()
	s.start(at, s.depth, (*disk.Section).StartWrite)
	s.depth++
}

// reserve allocates file space for the input at the current depth. Space reserved for smaller
// inputs stays unused.
func (s *diskOffload) reserve() {
	if len(s.sections) > 0 && s.sections[0].buf.Size < s.bytes {
		for _, p := range s.sections {
			p.buf.Release()
		}
		s.sections = nil
	}
	if s.depth < len(s.sections) {
		return
	}
	var at *disk.Section
	if s.f != nil {
		var err error
		if at, err = s.f.Reserve(int64(s.bytes)); err != nil {
			s.fail(err)
		}
	}
	s.sections = append(s.sections, reserved{at, tensor.NewOffloaded(s.b.Meter(), nil, s.bytes)})
}

// Top returns the last input pushed.
func (s *diskOffload) Top() *tensor.Tensor {
	at := s.buffer(s.depth - 1)
	s.wait(at)
	return at.buf
}

// Pop drops the top and starts reading the input after the next.
func (s *diskOffload) Pop() {
	s.depth--
	at := s.buffer(s.depth)
	s.wait(at)
	if below := s.depth - len(s.buffers); below >= 0 {
		s.start(at, below, (*disk.Section).StartRead)
		return
	}
	at.buf.Release()
	at.buf = nil
}

// start transfers a buffer to or from its file section in the background.
func (s *diskOffload) start(at *buffer, depth int, move func(*disk.Section, []byte, int64) *disk.Transfer) {
	if s.f == nil {
		return
	}
	s.b.Sync()
	at.busy = move(s.sections[depth].at, tensor.HostBytes(at.buf), 0)
}

func (s *diskOffload) wait(at *buffer) {
	if at.busy == nil {
		return
	}
	waits := s.trace.Begin(trace.Span{Kind: trace.Offload})
	err := at.busy.Wait()
	s.trace.End(waits)
	moved := at.busy.Span()
	moved.Step, moved.Micro = waits.Step, waits.Micro
	s.trace.Add(moved)
	if at.busy = nil; err != nil {
		s.fail(err)
	}
}

// fail aborts the step: Stepper.Step returns the error.
func (s *diskOffload) fail(err error) {
	s.err = fault.Try(fmt.Errorf("train: activation_checkpointing.store: saved inputs of %d bytes each: %w", s.bytes, err), "another store_path, or store: memory")
	panic(s.err)
}

// Close waits for transfers and removes the file.
func (s *diskOffload) Close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	return err
}
