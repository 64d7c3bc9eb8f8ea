package disk

// Transfer is a background transfer between memory and a Section.
type Transfer struct{ done chan error }

// StartRead starts reading into p from byte off. p must not be used until Wait returns.
func (s *Section) StartRead(p []byte, off int64) *Transfer {
	return s.f.start(func() error {
		_, err := s.ReadAt(p, off)
		return err
	})
}

// StartWrite starts writing p at byte off. p must not change until Wait returns.
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

// Wait waits for the transfer and returns its error. It is called once; on nil it returns at once.
func (t *Transfer) Wait() error {
	if t == nil {
		return nil
	}
	return <-t.done
}
