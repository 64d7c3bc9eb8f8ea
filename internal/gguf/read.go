package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
)

// File is an open file. Its methods are safe for concurrent use.
type File struct {
	name     string
	r        io.ReaderAt
	metadata []KV
	infos    []Info
	index    map[string]int
	data     int64    // offset of the data section
	sums     []uint32 // of tensors; nil if the file has no checksums
	closer   io.Closer
}

// Open opens a file.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("gguf: %s is not a file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	g, err := NewFile(path, f, st.Size())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	g.closer = f
	return g, nil
}

// NewFile reads the metadata and the list of tensors of a file of size bytes. It allocates no more than a few times
// that. name is for errors.
func NewFile(name string, r io.ReaderAt, size int64) (*File, error) {
	f := &File{name: name, r: r, index: map[string]int{}}
	d := &parser{r: io.NewSectionReader(r, 0, size), left: size}
	if err := f.parse(d, size); err != nil {
		return nil, fmt.Errorf("gguf: %s: %w", name, err)
	}
	return f, nil
}

// Is reports whether a file begins as a GGUF file does.
func Is(path string) bool {
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() { // opening a pipe would block
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

// Close closes the file of Open.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Metadata lists the entries in order.
func (f *File) Metadata() []KV { return f.metadata }

// Value returns the value of a key, or nil.
func (f *File) Value(key string) any {
	for _, kv := range f.metadata {
		if kv.Key == key {
			return kv.Value
		}
	}
	return nil
}

// Checked reports whether the file has checksums, which NewFile and Read compare.
func (f *File) Checked() bool { return f.sums != nil }

// Tensors lists the tensors in order.
func (f *File) Tensors() []Info { return f.infos }

// Read returns the elements of a tensor as float32.
func (f *File) Read(name string) ([]float32, error) {
	i, ok := f.index[name]
	if !ok {
		return nil, fmt.Errorf("gguf: %s has no tensor %q", f.name, name)
	}
	t := f.infos[i]
	size, ok := t.Type.Size(t.Elems())
	if !ok {
		return nil, fmt.Errorf("gguf: %s: %s is of %v, which this program does not read", f.name, name, t.Type)
	}
	b := make([]byte, size)
	if n, err := f.r.ReadAt(b, f.data+t.offset); n < len(b) {
		return nil, fmt.Errorf("gguf: %s: read %s: %w", f.name, name, err)
	}
	if f.sums != nil && crc32.Checksum(b, castagnoli) != f.sums[i] {
		return nil, f.damaged(t)
	}
	out := make([]float32, t.Elems())
	decode(out, b, t.Type)
	return out, nil
}

// Verify reads tensor i of Tensors and compares its checksum, if the file has checksums. It returns the number of bytes, 0 if the
// type of the tensor is unknown.
func (f *File) Verify(i int) (int64, error) {
	t := f.infos[i]
	size, _ := t.Type.Size(t.Elems())
	h := crc32.New(castagnoli)
	if _, err := io.CopyBuffer(h, io.NewSectionReader(f.r, f.data+t.offset, size), make([]byte, 1<<20)); err != nil {
		return 0, fmt.Errorf("gguf: %s: read %s: %w", f.name, t.Name, err)
	}
	if f.sums != nil && h.Sum32() != f.sums[i] {
		return 0, f.damaged(t)
	}
	return size, nil
}

func (f *File) damaged(t Info) error {
	return fmt.Errorf("gguf: %s: %s does not match its checksum", f.name, t.Name)
}

func (f *File) parse(d *parser, size int64) error {
	var head struct {
		Magic             [4]byte
		Version           uint32
		Tensors, Metadata uint64
	}
	d.fixed(&head)
	switch {
	case d.err != nil || string(head.Magic[:]) != magic:
		return errors.New("not a GGUF file")
	case head.Version != version:
		return fmt.Errorf("version %d is not supported: only %d is", head.Version, version)
	}
	var sums any
	sumsEnd := int64(0)
	seen := map[string]bool{}
	for range d.count(head.Metadata, 12+1) {
		kv := KV{Key: d.text()}
		kv.Value = d.value()
		if d.err == nil && seen[kv.Key] {
			d.err = fmt.Errorf("key %.60q is there twice", kv.Key)
		}
		if d.err != nil {
			return d.err
		}
		seen[kv.Key] = true
		if kv.Key == sumsKey {
			sums, sumsEnd = kv.Value, size-d.left
			continue
		}
		f.metadata = append(f.metadata, kv)
	}
	by := int64(alignment)
	if v, ok := f.Value("general.alignment").(uint32); ok {
		if by = int64(v); by == 0 || by%8 != 0 || by > 1<<20 {
			return fmt.Errorf("general.alignment is %d", by)
		}
	}
	for range d.count(head.Tensors, 8+4+4+8) {
		t := d.info()
		if _, twice := f.index[t.Name]; d.err == nil && twice {
			d.err = fmt.Errorf("tensor %.60q is there twice", t.Name)
		}
		if d.err != nil {
			return d.err
		}
		f.index[t.Name] = len(f.infos)
		f.infos = append(f.infos, t)
	}
	if d.err != nil {
		return d.err
	}
	at := size - d.left
	f.data = (at + by - 1) / by * by
	if err := f.checkLayout(by, size); err != nil || sumsEnd == 0 {
		return err
	}
	return f.checkHeader(sums, sumsEnd, min(f.data, size))
}

// checkHeader compares the checksum of the first bytes of the file, up to data, without the checksums, which end at byte end.
func (f *File) checkHeader(value any, end, data int64) error {
	sums, ok := value.([]uint32)
	if !ok || len(sums) != 1+len(f.infos) {
		return fmt.Errorf("%s is not the checksums of %d tensors", sumsKey, len(f.infos))
	}
	b := make([]byte, data)
	if _, err := f.r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	clear(b[end-4*int64(len(sums)) : end])
	if crc32.Checksum(b, castagnoli) != sums[0] {
		return fmt.Errorf("the metadata or the list of tensors does not match its checksum (%s)", sumsKey)
	}
	f.sums = sums[1:]
	return nil
}

// checkLayout checks that the tensors are inside the file, follow each other and fill it, apart from the padding to
// multiples of by bytes, which is zero. The tensors after one of an unknown type,
// whose end nobody can compute, are only checked to be inside.
func (f *File) checkLayout(by, size int64) error {
	at, follow := int64(0), true
	for _, t := range f.infos {
		n, known := t.Type.Size(t.Elems())
		follow = follow && known
		switch {
		case known && (t.offset%by != 0 || t.offset > size-f.data || n > size-f.data-t.offset):
			return fmt.Errorf("%.60q has %d bytes at %d, but the file has %d bytes of data", t.Name, n, t.offset, max(0, size-f.data))
		case !follow:
			continue
		case t.offset != at:
			return fmt.Errorf("%.60q is at %d of the data, but the tensor before it ends at %d", t.Name, t.offset, at)
		}
		end := f.data + at + n
		at = (at + n + by - 1) / by * by
		padding := make([]byte, min(f.data+at, size)-end)
		if _, err := f.r.ReadAt(padding, end); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if slices.ContainsFunc(padding, func(b byte) bool { return b != 0 }) {
			return fmt.Errorf("the bytes after %.60q are not zero", t.Name)
		}
	}
	if rest := size - f.data - at; follow && rest > 0 {
		return fmt.Errorf("%d bytes follow the last tensor", rest)
	}
	return nil
}

// parser reads little-endian values, no more than left bytes, and keeps the first error.
type parser struct {
	r    io.Reader
	left int64
	err  error
}

func (d *parser) fixed(v any) {
	n := int64(binary.Size(v))
	if d.err == nil && n > d.left {
		d.err = io.ErrUnexpectedEOF
	}
	if d.err == nil {
		d.err = binary.Read(d.r, binary.LittleEndian, v)
		d.left -= n
	}
}

// count returns n if n things of min bytes each fit into the rest, else 0 with an error.
func (d *parser) count(n uint64, min int64) int {
	if d.err == nil && n > uint64(d.left/min) {
		d.err = fmt.Errorf("it has %d bytes left for %d entries", d.left, n)
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

func (d *parser) text() string {
	var n uint64
	d.fixed(&n)
	b := make([]byte, d.count(n, 1))
	d.fixed(b)
	return string(b)
}

func (d *parser) kind() (kind uint32) {
	d.fixed(&kind)
	return kind
}

func (d *parser) value() any {
	switch kind := d.kind(); kind {
	case kindString:
		return d.text()
	case kindArray:
		return d.array()
	default:
		if k, ok := numbers[kind]; ok {
			return k.one(d)
		}
		d.unknown(kind)
		return nil
	}
}

// number reads numbers of one kind: one, or a list of n.
type number struct {
	one  func(d *parser) any
	list func(d *parser, n uint64) any
}

func numberOf[T any]() number {
	size := int64(binary.Size(*new(T)))
	return number{
		one: func(d *parser) any { return one[T](d) },
		list: func(d *parser, n uint64) any {
			out := make([]T, d.count(n, size))
			d.fixed(out)
			return out
		},
	}
}

var numbers = map[uint32]number{
	kindU8: numberOf[uint8](), kindI8: numberOf[int8](), kindU16: numberOf[uint16](), kindI16: numberOf[int16](),
	kindU32: numberOf[uint32](), kindI32: numberOf[int32](), kindU64: numberOf[uint64](), kindI64: numberOf[int64](),
	kindF32: numberOf[float32](), kindF64: numberOf[float64](), kindBool: numberOf[bool](),
}

func (d *parser) array() any {
	kind := d.kind()
	var n uint64
	d.fixed(&n)
	if kind == kindString {
		var out []string
		for range d.count(n, 8) {
			if out = append(out, d.text()); d.err != nil {
				return nil
			}
		}
		return out
	}
	if k, ok := numbers[kind]; ok {
		return k.list(d, n)
	}
	d.unknown(kind)
	return nil
}

func (d *parser) unknown(kind uint32) {
	if d.err == nil {
		d.err = fmt.Errorf("a value of type %d", kind)
	}
}

func one[T any](d *parser) (v T) {
	d.fixed(&v)
	return v
}

func (d *parser) info() Info {
	t := Info{Name: d.text()}
	dims := d.kind()
	if d.err == nil && dims > maxDims {
		d.err = fmt.Errorf("%.60q has %d dimensions", t.Name, dims)
	}
	n := uint64(1)
	for range d.count(uint64(dims), 8) {
		size := one[uint64](d)
		if d.err == nil && (size > math.MaxInt32 || size > 0 && n > math.MaxInt64/4/size) {
			d.err = fmt.Errorf("%.60q has a dimension of %d", t.Name, size)
		}
		if size > 0 {
			n *= size
		}
		t.Shape = append(t.Shape, int(size))
	}
	slices.Reverse(t.Shape)
	t.Type = Type(d.kind())
	if at := one[uint64](d); at <= math.MaxInt64 {
		t.offset = int64(at)
	} else if d.err == nil {
		d.err = fmt.Errorf("%.60q is at byte %d", t.Name, at)
	}
	return t
}
