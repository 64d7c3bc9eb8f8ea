package pjrt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrForeign is the error of bytes that are no executable of this plug-in.
var ErrForeign = errors.New("damaged, or not an executable of this plug-in")

// Samples of a plug-in's file that identify its build.
const (
	samples    = 16
	sampleSize = 64 << 10
)

// identity returns a value that plug-ins of the same build share: a hash of the file's size and of
// samples of its contents, and of the versions that it reports.
func (p *Plugin) identity() ([]byte, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	attributes, err := p.Attributes()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d.%d %d %v", p.major, p.minor, info.Size(), attributes) // maps print in order
	for i := range int64(samples) {
		if _, err := io.Copy(h, io.NewSectionReader(f, i*info.Size()/samples, sampleSize)); err != nil {
			return nil, err
		}
	}
	return h.Sum(nil), nil
}

// seal returns a serialized executable with a hash of it and of the plug-in: a plug-in does not notice
// every change of an executable, and runs a damaged one.
func (p *Plugin) seal(b []byte) ([]byte, error) {
	sum, err := p.sum(b)
	return append(sum, b...), err
}

// unseal returns what seal was given.
func (p *Plugin) unseal(b []byte) ([]byte, error) {
	if len(b) < sha256.Size {
		return nil, ErrForeign
	}
	head, b := b[:sha256.Size], b[sha256.Size:]
	sum, err := p.sum(b)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(head, sum) {
		return nil, ErrForeign
	}
	return b, nil
}

func (p *Plugin) sum(b []byte) ([]byte, error) {
	id, err := p.id()
	if err != nil {
		return nil, fmt.Errorf("plug-in %s: %w", p.path, err)
	}
	h := sha256.New()
	h.Write(id)
	h.Write(b)
	return h.Sum(nil), nil
}
