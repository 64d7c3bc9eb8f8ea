package convert

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"trireme/internal/torchfile"
)

// dcpFiles are the .distcp files.
type dcpFiles struct {
	dir   string
	mu    sync.Mutex
	files map[string]*os.File
}

// check checks that a chunk is within its file.
func (d *dcpFiles) check(c *dcpChunk) error {
	st, err := os.Stat(filepath.Join(d.dir, c.path))
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular() || c.length > st.Size() || c.offset > st.Size()-c.length:
		return fmt.Errorf("%d bytes at offset %d are outside %s", c.length, c.offset, c.path)
	}
	return nil
}

// tensor opens a chunk at the first call.
func (d *dcpFiles) tensor(c *dcpChunk) (*torchfile.Tensor, error) {
	c.open.Do(func() { c.t, c.err = d.openChunk(c) })
	return c.t, c.err
}

func (d *dcpFiles) openChunk(c *dcpChunk) (*torchfile.Tensor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[c.path]
	if f == nil {
		var err error
		if f, err = os.Open(filepath.Join(d.dir, c.path)); err != nil {
			return nil, err
		}
		d.files[c.path] = f
	}
	name := fmt.Sprintf("%s at offset %d", f.Name(), c.offset)
	file, err := torchfile.New(name, io.NewSectionReader(f, c.offset, c.length), c.length, torchfile.Options{})
	if err != nil {
		return nil, err
	}
	t, ok := file.Value().(*torchfile.Tensor)
	if !ok || t.Type != c.as || !t.Shape.Equal(c.Sizes) {
		return nil, fmt.Errorf("%s holds %v, the metadata says %s%v", name, file.Value(), c.as, c.Sizes)
	}
	return t, nil
}

func (d *dcpFiles) close() error {
	var errs []error
	for _, f := range d.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
