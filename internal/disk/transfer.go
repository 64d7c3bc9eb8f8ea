package disk

// Transfer is bytes on their way between memory and a Section.
type Transfer struct{ done chan error }

// StartRead begins to fill p from byte off on. Until Wait returns p belongs to the transfer.
func (s *Section) StartRead(p []byte, off int64) *Transfer {
	return s.f.start(func() error {
		_, err := s.ReadAt(p, off)
		return err
	})
}

// StartWrite begins to write p at byte off. Until Wait returns p is not to be changed.
func (s *Section) StartWrite(p []byte, off int64) *Transfer {
	return s.f.start(func() error {
		_, err := s.WriteAt(p, off)
		return err
	})
}

func (f *File) start(move func() error) *Transfer {
	t := &Transfer{make(chan error, 1)}
	f.transfers.Add(1)
	go func() {
		defer f.transfers.Done()
		t.done <- move()
	}()
	return t
}

// Wait returns when the bytes have moved, or could not. It is called once; of nil it returns at
// once.
func (t *Transfer) Wait() error {
	if t == nil {
		return nil
	}
	return <-t.done
}
