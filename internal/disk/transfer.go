package disk

import "trireme/trace"

// Transfer is a background transfer between memory and a Section.
type Transfer struct {
	done chan error
	span trace.Span
}

// Span returns the span of the transfer, once Wait has returned: of the stream Disk, with Op read or write, and Bytes.
func (t *Transfer) Span() trace.Span { return t.span }

// StartRead starts reading into p from byte off. p must not be used until Wait returns.
func (s *Section) StartRead(p []byte, off int64) *Transfer {
	return s.f.start("read", len(p), func() error {
		_, err := s.ReadAt(p, off)
		return err
	})
}

// StartWrite starts writing p at byte off. p must not change until Wait returns.
func (s *Section) StartWrite(p []byte, off int64) *Transfer {
	return s.f.start("write", len(p), func() error {
		_, err := s.WriteAt(p, off)
		return err
	})
}

func (f *File) start(op string, bytes int, move func() error) *Transfer {
	t := &Transfer{make(chan error, 1), trace.Span{Stream: trace.Disk, Kind: trace.Offload, Op: op, Bytes: int64(bytes)}}
	f.transfers.Add(1)
	go func() {
		defer f.transfers.Done()
		t.span.Start = trace.Now()
		err := move()
		t.span.End = trace.Now()
		t.done <- err
	}()
	return t
}

// Wait waits for the transfer and returns its error. It is called once; on nil it returns at once.
func (t *Transfer) Wait() error {
	if t == nil {
		return nil
	}
	return <-t.done
}
