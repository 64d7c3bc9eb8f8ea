package train

import (
	"fmt"

	"trireme/autograd"
	"trireme/fault"
	"trireme/internal/disk"
	"trireme/tensor"
)

// spill is a Shelf in a file. What is put away lies in one of two buffers while it is written; on
// the way back what lies below the top is read while the top is used. Memory is that of two
// inputs, however many there are. Where nothing is computed there is no file.
type spill struct {
	b      tensor.Backend
	f      *disk.File // nil where nothing is computed
	places []place    // by depth
	depth  int
	bytes  int // of each
	slots  [2]spilled
	err    error
}

// place is where the input of a depth lies.
type place struct {
	at  *disk.Section
	buf *tensor.Buffer // what counts it
}

// spilled is a buffer, of every second input.
type spilled struct {
	buf  *tensor.Tensor
	busy *disk.Transfer // nil where nothing is under way
}

var _ autograd.OffloadStack = (*spill)(nil)

// newSpill makes a file in a directory.
func newSpill(b tensor.Backend, dir string) (*spill, error) {
	s := &spill{b: b}
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

// slot is the buffer of the input at a depth.
func (s *spill) slot(depth int) *spilled { return &s.slots[depth%len(s.slots)] }

// Push puts x away.
func (s *spill) Push(x *tensor.Tensor) {
	if s.depth == 0 {
		s.bytes = x.Bytes()
	}
	if x.Bytes() != s.bytes {
		panic(fmt.Sprintf("train: %v is put away among inputs of %d bytes", x, s.bytes))
	}
	at := s.slot(s.depth)
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
func (s *spill) reserve() {
	if len(s.places) > 0 && s.places[0].buf.Size < s.bytes {
		for _, p := range s.places {
			p.buf.Release()
		}
		s.places = nil
	}
	if s.depth < len(s.places) {
		return
	}
	var at *disk.Section
	if s.f != nil {
		var err error
		if at, err = s.f.Reserve(int64(s.bytes)); err != nil {
			s.fail(err)
		}
	}
	s.places = append(s.places, place{at, tensor.NewOffloaded(s.b.Meter(), nil, s.bytes)})
}

// Top is what was put away last.
func (s *spill) Top() *tensor.Tensor {
	at := s.slot(s.depth - 1)
	s.wait(at)
	return at.buf
}

// Pop forgets the top, and begins to read what comes after the next.
func (s *spill) Pop() {
	s.depth--
	at := s.slot(s.depth)
	s.wait(at)
	if below := s.depth - len(s.slots); below >= 0 {
		s.start(at, below, (*disk.Section).StartRead)
		return
	}
	at.buf.Release()
	at.buf = nil
}

// start moves a buffer to or from its place in the file, behind the caller.
func (s *spill) start(at *spilled, depth int, move func(*disk.Section, []byte, int64) *disk.Transfer) {
	if s.f == nil {
		return
	}
	s.b.Sync()
	at.busy = move(s.places[depth].at, tensor.HostBytes(at.buf), 0)
}

// wait ends what is under way in a buffer.
func (s *spill) wait(at *spilled) {
	err := at.busy.Wait()
	if at.busy = nil; err != nil {
		s.fail(err)
	}
}

// fail ends the step: Stepper.Step returns the error.
func (s *spill) fail(err error) {
	s.err = fault.Try(fmt.Errorf("train: activation_checkpointing.store: inputs of layers, %d bytes each: %w", s.bytes, err), "another store_path, or store: memory")
	panic(s.err)
}

// Close waits for what is under way and removes the file.
func (s *spill) Close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	return err
}
