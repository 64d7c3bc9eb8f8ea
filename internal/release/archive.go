package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
)

// archive packs files below a directory of the given name into a tar.gz. Its bytes depend on its
// arguments alone: files are in order of their paths, have the given time, and have no owner.
func archive(name string, files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	files = slices.SortedFunc(slices.Values(files), compareFiles)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name + "/" + f.path, Size: int64(len(f.content)), Mode: 0o644, ModTime: at, Format: tar.FormatPAX}
		if f.executable {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// sum is a line of SHA256SUMS, as sha256sum writes and checks it.
func sum(name string, content []byte) string {
	return fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name)
}
