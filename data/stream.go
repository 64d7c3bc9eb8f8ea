package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"trireme/fault"
	"trireme/internal/filekind"
)

// maxWindow is the maximum zstd window, that of `zstd --long=31`.
const maxWindow = 1 << 31

// First bytes of the supported compressions.
const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// readable are binary files of other formats, by their first bytes.
var readable = []struct {
	bytes, name, ending, format string
}{
	{parquetMagic, "a Parquet file", ".parquet", "parquet"},
	{npyMagic, "a NumPy array", ".npy", "tokens"},
	{tokenMagic, "a token file", ".tok", "tokens"},
}

// checkKind returns an error if head is of a file of another kind.
func (s *stream) checkKind(head []byte, format string) error {
	for _, m := range readable {
		if bytes.HasPrefix(head, []byte(m.bytes)) {
			return fault.Try(fmt.Errorf("it is %s, not %s", m.name, orText(format)), "rename it to %s, or %s", m.ending, fault.Set("data.format", m.format))
		}
	}
	k, ok := filekind.Detect(s.path, head)
	if !ok || k.Text && format == FormatText {
		return nil
	}
	if strings.HasPrefix(k.Name, "an Arrow file") && isSaved(filepath.Dir(s.path)) {
		k.Try = convertSaved(filepath.Dir(s.path))
	}
	return fault.Try(fmt.Errorf("it is %s, not %s", k.Name, orText(format)), "%s", k.Try)
}

// stream reads a text file, decompressed. Read errors name the file.
type stream struct {
	io.Reader
	path  string
	kind  string // gzip or zstd; "": not compressed
	file  *os.File
	close func()
}

// openStream opens a text file. Bytes read from disk are added to read.
func openStream(path string, read *atomic.Int64) (*stream, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	s := &stream{path: path, file: f, close: func() {}}
	if err := s.begin(bufio.NewReaderSize(counter{f, read}, 1<<18)); err != nil {
		return nil, errors.Join(fmt.Errorf("data: %s: %w", path, err), s.Close())
	}
	return s, nil
}

// begin detects the compression.
func (s *stream) begin(r *bufio.Reader) error {
	format, compression := formatOf(s.path)
	head, err := r.Peek(filekind.HeadSize)
	if err != nil && err != io.EOF {
		return err
	}
	kind := ""
	switch {
	case bytes.HasPrefix(head, []byte(gzipMagic)):
		kind = "gzip"
	case bytes.HasPrefix(head, []byte(zstdMagic)):
		kind = "zstd"
	default:
		if err := s.checkKind(head, format); err != nil {
			return err
		}
	}
	switch {
	case compression == "gz" && kind != "gzip" || compression == "zst" && kind != "zstd":
		return fault.Try(fmt.Errorf("it is named .%s, but its first bytes are % x", compression, head[:min(4, len(head))]), "remove the extension if it is not compressed")
	case kind == "gzip":
		s.kind = kind
		z, err := gzip.NewReader(r)
		if err != nil {
			return s.cause(err)
		}
		s.Reader = z
	case kind == "zstd":
		s.kind = kind
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return s.cause(err)
		}
		s.Reader, s.close = z, z.Close
	default:
		s.Reader = r
	}
	if kind != "" {
		r = bufio.NewReaderSize(s.Reader, 1<<18)
		s.Reader = r
	}
	if head, err = r.Peek(filekind.HeadSize); err != nil && err != io.EOF {
		return s.cause(err)
	}
	if kind != "" {
		if err := s.checkKind(head, format); err != nil {
			return fmt.Errorf("decompressed, %w", err)
		}
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		_, err = r.Discard(3)
		return err
	}
	return nil
}

func orText(format string) string {
	if format == FormatText {
		return "plain text"
	}
	return format
}

// Read returns decompressed bytes.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("data: %s: %w", s.path, s.cause(err))
	}
	return n, err
}

func (s *stream) cause(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Try(errors.New("the compressed file is truncated"), "download it again")
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		return fault.Try(errors.New("the compressed file is damaged: checksum mismatch"), "download it again")
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return fault.Try(errors.New("it needs a zstd dictionary that is not in the file"), "zstd -d -D DICTIONARY")
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fault.Try(fmt.Errorf("its zstd window is larger than %d MiB", maxWindow>>20), "decompress it with zstd -d --long=31, and compress it without --long")
	}
	var system *fs.PathError
	if s.kind == "" || errors.As(err, &system) {
		return err
	}
	return fault.Try(fmt.Errorf("damaged, or not a %s file: %s", s.kind, strings.TrimPrefix(err.Error(), s.kind+": ")), "download it again")
}

// Close closes the file.
func (s *stream) Close() error {
	s.close()
	return s.file.Close()
}

type counter struct {
	io.Reader
	n *atomic.Int64
}

func (c counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}
