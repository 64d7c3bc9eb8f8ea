package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is how far back a zstd stream may refer: what `zstd --long=31` writes.
const maxWindow = 1 << 31

// magics tell files by their first bytes. Those that cannot be read say what helps.
var magics = []struct {
	bytes, name, help string
}{
	{"\x1f\x8b", "gzip", ""},
	{"\x28\xb5\x2f\xfd", "zstd", ""},
	{"PAR1", "a Parquet file", "call it .parquet, or --set data.format=parquet"},
	{"BZh", "bzip2", "bunzip2"},
	{"\xfd7zXZ\x00", "xz", "unxz"},
	{"PK\x03\x04", "a zip archive", "unzip"},
	{"\x04\x22\x4d\x18", "lz4", "unlz4"},
	{"ARROW1", "an Arrow file", "save it as Parquet"},
	{npyMagic, "an array of NumPy", "call it .npy, or --set data.format=tokens"},
	{tokenMagic, "a token file", "call it .tok, or --set data.format=tokens"},
	{"\xff\xfe", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8"},
}

// stream reads a text file, whatever it is compressed with. Errors of reading name the file.
type stream struct {
	io.Reader
	path  string
	kind  string // gzip or zstd; "" where it is not compressed
	file  *os.File
	close func()
}

// openStream opens a file of text. What is read of the disk is added to read.
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

// begin looks at the first bytes.
func (s *stream) begin(r *bufio.Reader) error {
	format, compression := kindOf(s.path)
	head, err := r.Peek(8)
	if err != nil && err != io.EOF {
		return err
	}
	kind := ""
	for _, m := range magics {
		if !bytes.HasPrefix(head, []byte(m.bytes)) {
			continue
		}
		if kind = m.name; m.help != "" {
			return fmt.Errorf("it is %s, not %s. try: %s", m.name, orText(format), m.help)
		}
	}
	switch {
	case compression == "gz" && kind != "gzip" || compression == "zst" && kind != "zstd":
		return fmt.Errorf("its name says .%s, but its first bytes are % x. try: take the ending off, if it is not compressed", compression, head[:min(4, len(head))])
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
	if head, err = r.Peek(3); err != nil && err != io.EOF {
		return s.cause(err)
	}
	if bytes.Equal(head, []byte("\xef\xbb\xbf")) {
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

// Read reads what was compressed.
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
		return errors.New("the compressed file is cut short. try: fetch it again")
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		return errors.New("the compressed file is damaged: its checksum differs. try: fetch it again")
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return errors.New("it is compressed with a zstd dictionary, which the file does not hold. try: zstd -d -D DICTIONARY")
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Errorf("its zstd window is larger than %d MiB. try: zstd -d --long=31, and compress it again without --long", maxWindow>>20)
	}
	var system *fs.PathError
	if s.kind == "" || errors.As(err, &system) {
		return err
	}
	return fmt.Errorf("the file is damaged, or only begins as %s does: %s. try: fetch it again", s.kind, strings.TrimPrefix(err.Error(), s.kind+": "))
}

// Close ends reading.
func (s *stream) Close() error {
	s.close()
	return s.file.Close()
}

// counter counts what it reads.
type counter struct {
	io.Reader
	n *atomic.Int64
}

func (c counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}
