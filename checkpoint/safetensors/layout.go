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

// Entry declares one tensor of a file that is to be written.
type Entry struct {
	Name  string
	DType tensor.DType
	Shape tensor.Shape
}

// Bytes is the size of the tensor.
func (e Entry) Bytes() int64 { return int64(e.Shape.Elems()) * int64(e.DType.Size()) }

func (e Entry) String() string { return fmt.Sprintf("%s %v%v", e.Name, e.DType, e.Shape) }

// Layout is where every byte of a file lies: tensors in the order of their declaration,
// one after the other. The same declaration gives the same bytes. It does not change after
// NewLayout.
type Layout struct {
	entries []Entry
	header  []byte // length, JSON, spaces
	offsets []int64
	size    int64
	byName  map[string]int
}

// NewLayout places the entries. metadata goes into the header; Hugging Face's readers want
// {"format": "pt"} there.
func NewLayout(entries []Entry, metadata map[string]string) (*Layout, error) {
	l := &Layout{entries: entries, offsets: make([]int64, len(entries)), byName: make(map[string]int, len(entries))}
	js := []byte{'{'}
	if metadata != nil {
		js = appendMetadata(js, metadata)
	}
	end := int64(0)
	for i, e := range entries {
		if err := l.check(i, e); err != nil {
			return nil, fmt.Errorf("safetensors: write %q: %w", e.Name, err)
		}
		l.byName[e.Name] = i
		l.offsets[i] = end
		if len(js) > 1 {
			js = append(js, ',')
		}
		js = appendEntry(js, e, end)
		end += e.Bytes()
	}
	js = append(js, '}')
	for len(js)%8 != 0 {
		js = append(js, ' ')
	}
	if len(js) > maxHeader {
		return nil, fmt.Errorf("safetensors: a header of %d bytes is larger than readers take (%d)", len(js), maxHeader)
	}
	l.header = append(binary.LittleEndian.AppendUint64(nil, uint64(len(js))), js...)
	for i := range l.offsets {
		l.offsets[i] += int64(len(l.header))
	}
	l.size = end + int64(len(l.header))
	return l, nil
}

func (l *Layout) check(i int, e Entry) error {
	if e.Name == "" || e.Name == metadataKey || !utf8.ValidString(e.Name) {
		return errors.New("a tensor cannot have this name")
	}
	if first, ok := l.byName[e.Name]; ok {
		return fmt.Errorf("is declared twice, as tensor %d and %d", first, i)
	}
	if TypeOf(e.DType) == "" {
		return fmt.Errorf("the format has no %v", e.DType)
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

// appendString writes s as JSON; bytes that are not UTF-8 become the replacement character.
func appendString(js []byte, s string) []byte {
	js, _ = jsontext.AppendQuote(js, s) // the error only reports the replacement
	return js
}

// Header is the beginning of the file, up to the first tensor.
func (l *Layout) Header() []byte { return l.header }

// Size is the number of bytes of the whole file.
func (l *Layout) Size() int64 { return l.size }

// Entries lists the tensors in the order of the file. The caller does not change it.
func (l *Layout) Entries() []Entry { return l.entries }

// Offset is where entry i begins, in bytes from the start of the file.
func (l *Layout) Offset(i int) int64 { return l.offsets[i] }

// Find is the entry of that name and where it begins.
func (l *Layout) Find(name string) (e Entry, offset int64, ok bool) {
	i, ok := l.byName[name]
	if !ok {
		return Entry{}, 0, false
	}
	return l.entries[i], l.offsets[i], true
}

// WriteHeader writes the beginning of the file to w. One of the writers of a file does it.
func (l *Layout) WriteHeader(w io.WriterAt) error {
	if _, err := w.WriteAt(l.header, 0); err != nil {
		return fmt.Errorf("safetensors: write the header: %w", err)
	}
	return nil
}

// WriteRange writes elements of a tensor, beginning with element first, to their place in
// w. Ranges may come in any order and from any number of goroutines or processes.
func (l *Layout) WriteRange(w io.WriterAt, name string, first int, src []byte) error {
	e, at, ok := l.Find(name)
	if !ok {
		return fmt.Errorf("safetensors: write %q: it was not declared", name)
	}
	size := e.DType.Size()
	if first < 0 || first > e.Shape.Elems() || len(src)%size != 0 || len(src)/size > e.Shape.Elems()-first {
		return fmt.Errorf("safetensors: write %v: %d bytes at element %d do not lie in it", e, len(src), first)
	}
	if _, err := w.WriteAt(src, at+int64(first)*int64(size)); err != nil {
		return fmt.Errorf("safetensors: write %v: %w", e, err)
	}
	return nil
}
