package train

import (
	"fmt"

	"trireme/autograd"
	"trireme/fault"
	"trireme/internal/disk"
	"trireme/tensor"
)

// diskOffload is a Shelf in a file. What is put away lies in one of two buffers while it is written; on
// the way back what lies below the top is read while the top is used. Memory is that of two
// inputs, however many there are. Where nothing is computed there is no file.
type diskOffload struct {
	b        tensor.Backend
	f        *disk.File // nil where nothing is computed
	sections []reserved // by depth
	depth    int
	bytes    int // of each
	buffers  [2]buffer
	err      error
}

// reserved is where the input of a depth lies.
type reserved struct {
	at  *disk.Section
	buf *tensor.Buffer // what counts it
}

// buffer is a buffer, of every second input.
type buffer struct {
	buf  *tensor.Tensor
	busy *disk.Transfer // nil where nothing is under way
}

var _ autograd.OffloadStack = (*diskOffload)(nil)

// newDiskOffload makes a file in a directory.
func newDiskOffload(b tensor.Backend, dir string) (*diskOffload, error) {
	s := &diskOffload{b: b}
	if tensor.IsMeta(b) {
		return s, nil
	}
	if tensor.Static(b) {
		return nil, fault.Try(fmt.Errorf("train: activation_checkpointing.store: inputs of layers move to and from a file in the middle of a step, and %s compiles a step as a whole", b.Name()), "%s", fault.Set("activation_checkpointing.store", "memory"))
	}
	var err error
	if s.f, err = disk.Create(dir); err != nil {
		return nil, fmt.Errorf("train: activation_checkpointing.store_path: %w", err)
	}
	return s, nil
}

// buffer is the buffer of the input at a depth.
func (s *diskOffload) buffer(depth int) *buffer { return &s.buffers[depth%len(s.buffers)] }

// Push puts x away.
func (s *diskOffload) Push(x *tensor.Tensor) {
	if s.depth == 0 {
		s.bytes = x.Bytes()
	}
	if x.Bytes() != s.bytes {
		panic(fmt.Sprintf("train: %v is put away among inputs of %d bytes", x, s.bytes))
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

// reserve takes space for the input at the present depth. What was taken for smaller ones stays
// unused.
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

// Top is what was put away last.
func (s *diskOffload) Top() *tensor.Tensor {
	at := s.buffer(s.depth - 1)
	s.wait(at)
	return at.buf
}

// Pop forgets the top, and begins to read what comes after the next.
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

// start moves a buffer to or from its place in the file, behind the caller.
func (s *diskOffload) start(at *buffer, depth int, move func(*disk.Section, []byte, int64) *disk.Transfer) {
	if s.f == nil {
		return
	}
	s.b.Sync()
	at.busy = move(s.sections[depth].at, tensor.HostBytes(at.buf), 0)
}

// wait ends what is under way in a buffer.
func (s *diskOffload) wait(at *buffer) {
	err := at.busy.Wait()
	if at.busy = nil; err != nil {
		s.fail(err)
	}
}

// fail ends the step: Stepper.Step returns the error.
func (s *diskOffload) fail(err error) {
	s.err = fault.Try(fmt.Errorf("train: activation_checkpointing.store: inputs of layers, %d bytes each: %w", s.bytes, err), "another store_path, or store: memory")
	panic(s.err)
}

// Close waits for what is under way and removes the file.
func (s *diskOffload) Close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	return err
}
