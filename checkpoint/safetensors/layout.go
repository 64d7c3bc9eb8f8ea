package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"trireme/tensor"
)

// Entry declares one tensor of a file to write.
type Entry struct {
	Name  string
	DType tensor.DType
	Shape tensor.Shape
}

// Bytes returns the size of the tensor.
func (e Entry) Bytes() int64 { return int64(e.Shape.Elems()) * int64(e.DType.Size()) }

func (e Entry) String() string { return fmt.Sprintf("%s %v%v", e.Name, e.DType, e.Shape) }

// Layout is the offsets of a file: tensors in declaration order, without gaps. Equal declarations
// give equal bytes. It is immutable.
type Layout struct {
	entries  []Entry
	metadata map[string]string
	header   []byte // length, JSON, padding
	offsets  []int64
	size     int64
	byName   map[string]int
}

// NewLayout lays out the entries. metadata goes into the header; Hugging Face's readers expect
// {"format": "pt"}.
func NewLayout(entries []Entry, metadata map[string]string) (*Layout, error) {
	l := &Layout{entries: entries, metadata: metadata, offsets: make([]int64, len(entries)), byName: make(map[string]int, len(entries))}
	for i, e := range entries {
		if err := l.check(i, e); err != nil {
			return nil, fmt.Errorf("safetensors: write %q: %w", e.Name, err)
		}
		l.byName[e.Name] = i
		l.offsets[i] = l.size
		l.size += e.Bytes()
	}
	return l, l.setHeader()
}

// NewChecksumLayout is NewLayout with space for checksums in the metadata: Sums.Header replaces the header, whose checksums are
// not valid. Other programs ignore them.
func NewChecksumLayout(entries []Entry, metadata map[string]string) (*Layout, error) {
	l, err := NewLayout(entries, metadata)
	if err != nil {
		return nil, err
	}
	l.metadata = maps.Clone(metadata)
	if l.metadata == nil {
		l.metadata = map[string]string{}
	}
	l.metadata[checksumKey] = newChecksums(l.infos()).encode(0)
	return l, l.setHeader()
}

// setHeader makes the header, and the offsets relative to the start of the file.
func (l *Layout) setHeader() error {
	before := int64(len(l.header))
	l.header = l.headerWith(l.metadata)
	if n := len(l.header); n-8 > maxHeader {
		return fmt.Errorf("safetensors: a header of %d bytes exceeds the readers' limit of %d", n-8, maxHeader)
	}
	more := int64(len(l.header)) - before
	for i := range l.offsets {
		l.offsets[i] += more
	}
	l.size += more
	return nil
}

// headerWith returns the header with some metadata.
func (l *Layout) headerWith(metadata map[string]string) []byte {
	js := []byte{'{'}
	if metadata != nil {
		js = appendMetadata(js, metadata)
	}
	at := int64(0)
	for _, e := range l.entries {
		if len(js) > 1 {
			js = append(js, ',')
		}
		js = appendEntry(js, e, at)
		at += e.Bytes()
	}
	js = append(js, '}')
	for len(js)%8 != 0 {
		js = append(js, ' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(js))), js...)
}

// withChecksums returns the header with checksums.
func (l *Layout) withChecksums(c *checksums) []byte {
	metadata := maps.Clone(l.metadata)
	metadata[checksumKey] = c.encode(headerSum(l.infos(), l.metadata))
	return l.headerWith(metadata)
}

// infos describes the tensors as a reader of the file does.
func (l *Layout) infos() []Info {
	infos := make([]Info, len(l.entries))
	for i, e := range l.entries {
		infos[i] = Info{Name: e.Name, Type: TypeOf(e.DType), Shape: e.Shape, Offset: l.offsets[i], Size: e.Bytes()}
	}
	return infos
}

func (l *Layout) check(i int, e Entry) error {
	if e.Name == "" || e.Name == metadataKey || !utf8.ValidString(e.Name) {
		return errors.New("invalid tensor name")
	}
	if first, ok := l.byName[e.Name]; ok {
		return fmt.Errorf("is declared twice, as tensor %d and %d", first, i)
	}
	if TypeOf(e.DType) == "" {
		return fmt.Errorf("safetensors has no type %v", e.DType)
	}
	for _, d := range e.Shape {
		if d < 0 {
			return fmt.Errorf("has shape %v", e.Shape)
		}
	}
	return nil
}

func appendMetadata(js []byte, metadata map[string]string) []byte {
	js = appendString(js, metadataKey)
	js = append(js, ':', '{')
	for i, k := range slices.Sorted(maps.Keys(metadata)) {
		if i > 0 {
			js = append(js, ',')
		}
		js = appendString(js, k)
		js = append(js, ':')
		js = appendString(js, metadata[k])
	}
	return append(js, '}')
}

func appendEntry(js []byte, e Entry, at int64) []byte {
	js = appendString(js, e.Name)
	js = append(js, `:{"dtype":"`...)
	js = append(js, TypeOf(e.DType)...)
	js = append(js, `","shape":[`...)
	for i, d := range e.Shape {
		if i > 0 {
			js = append(js, ',')
		}
		js = strconv.AppendInt(js, int64(d), 10)
	}
	js = append(js, `],"data_offsets":[`...)
	js = strconv.AppendInt(js, at, 10)
	js = append(js, ',')
	js = strconv.AppendInt(js, at+e.Bytes(), 10)
	return append(js, ']', '}')
}

// appendString appends s as JSON; invalid UTF-8 becomes the replacement character.
func appendString(js []byte, s string) []byte {
	js, _ = jsontext.AppendQuote(js, s) // the error only reports that replacement
	return js
}

// Header returns the bytes before the first tensor.
func (l *Layout) Header() []byte { return l.header }

// Size returns the file size in bytes.
func (l *Layout) Size() int64 { return l.size }

// Entries lists the tensors in file order. The caller must not modify it.
func (l *Layout) Entries() []Entry { return l.entries }

// Offset returns the offset of entry i, in bytes from the start of the file.
func (l *Layout) Offset(i int) int64 { return l.offsets[i] }

// Find returns the named entry and its offset.
func (l *Layout) Find(name string) (e Entry, offset int64, ok bool) {
	i, ok := l.byName[name]
	if !ok {
		return Entry{}, 0, false
	}
	return l.entries[i], l.offsets[i], true
}

// WriteHeader writes the header to w. One of the writers of a file calls it.
func (l *Layout) WriteHeader(w io.WriterAt) error {
	if _, err := w.WriteAt(l.header, 0); err != nil {
		return fmt.Errorf("safetensors: write the header: %w", err)
	}
	return nil
}

// WriteRange writes elements of a tensor, from element first on, at their offset in w. Ranges may
// come in any order and from any number of goroutines or processes.
func (l *Layout) WriteRange(w io.WriterAt, name string, first int, src []byte) error {
	e, at, ok := l.Find(name)
	if !ok {
		return fmt.Errorf("safetensors: write %q: not declared", name)
	}
	size := e.DType.Size()
	if first < 0 || first > e.Shape.Elems() || len(src)%size != 0 || len(src)/size > e.Shape.Elems()-first {
		return fmt.Errorf("safetensors: write %v: %d bytes at element %d are out of range", e, len(src), first)
	}
	if _, err := w.WriteAt(src, at+int64(first)*int64(size)); err != nil {
		return fmt.Errorf("safetensors: write %v: %w", e, err)
	}
	return nil
}
