package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"trireme/tensor"
)

const (
	maxHeader   = 100_000_000 // bytes, the reference reader's limit
	maxDims     = 64
	metadataKey = "__metadata__"
)

// header is a decoded header.
type header struct {
	infos    []Info // in file order
	metadata map[string]string
}

// readHeader reads and validates the header of a file of size bytes.
func readHeader(r io.ReaderAt, size int64) (*header, error) {
	var length [8]byte
	if size < 8 {
		return nil, fmt.Errorf("%d bytes are too few for a safetensors file", size)
	}
	if err := readFull(r, length[:], 0); err != nil {
		return nil, fmt.Errorf("read the header's length: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > uint64(size-8) {
		return nil, fmt.Errorf("the header claims %d bytes, the file has %d (truncated, or not a safetensors file)", n, size)
	}
	if n > maxHeader {
		return nil, fmt.Errorf("the header claims %d bytes, more than %d", n, maxHeader)
	}
	b := make([]byte, n)
	if err := readFull(r, b, 8); err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	h, err := parseHeader(b)
	if err != nil {
		return nil, err
	}
	return h, h.sortAndCheck(int64(8+n), size)
}

// parseHeader decodes the JSON; offsets are relative to the end of the header.
func parseHeader(b []byte) (*header, error) {
	if len(b) == 0 || b[0] != '{' {
		return nil, errors.New("the header does not start with {")
	}
	h := &header{}
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	if _, err := dec.ReadToken(); err != nil {
		return nil, headerError(err)
	}
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, headerError(err)
		}
		name := tok.String()
		if name == metadataKey {
			if err := json.UnmarshalDecode(dec, &h.metadata); err != nil {
				return nil, headerError(err)
			}
			continue
		}
		var e struct {
			Type    Type     `json:"dtype"`
			Shape   []uint64 `json:"shape"`
			Offsets []uint64 `json:"data_offsets"`
		}
		if err := json.UnmarshalDecode(dec, &e, json.RejectUnknownMembers(true)); err != nil {
			return nil, headerError(err)
		}
		i, err := newInfo(name, e.Type, e.Shape, e.Offsets)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", clip(name), err)
		}
		h.infos = append(h.infos, i)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, headerError(err)
	}
	if len(bytes.TrimLeft(b[dec.InputOffset():], " ")) > 0 {
		return nil, errors.New("the header has data after its closing brace")
	}
	return h, nil
}

// headerError formats a JSON error on one line.
func headerError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the header's JSON is truncated")
	}
	return fmt.Errorf("the header is not valid: %s", plain(err))
}

// plain rewrites encoding/json's error in plain words, on one line.
func plain(err error) string {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) || semantic.GoType == nil {
		return strings.ReplaceAll(clip(strings.TrimPrefix(err.Error(), "jsontext: ")), "\n", " ")
	}
	where := clip(string(semantic.JSONPointer))
	if where == "" {
		where = "it"
	}
	if errors.Is(err, json.ErrUnknownName) {
		return where + " is a key that is not known"
	}
	what := map[jsontext.Kind]string{'n': "null", 'f': "false", 't': "true", '"': "a string", '0': "a number", '{': "an object", '[': "a list"}[semantic.JSONKind]
	if number := clip(string(semantic.JSONValue)); semantic.JSONKind == '0' && number != "" {
		what = number
	}
	want := "an object"
	switch semantic.GoType.Kind() {
	case reflect.Uint64:
		want = "an integer, 0 or more"
	case reflect.String:
		want = "a string"
	case reflect.Slice:
		want = "a list"
	}
	return fmt.Sprintf("%s is %s: it must be %s", where, what, want)
}

func newInfo(name string, t Type, shape, offsets []uint64) (Info, error) {
	size := uint64(t.Size())
	switch {
	case name == "":
		return Info{}, errors.New("has no name")
	case size == 0:
		return Info{}, fmt.Errorf("has unknown type %q", clip(string(t)))
	case shape == nil:
		return Info{}, errors.New("has no shape")
	case len(shape) > maxDims:
		return Info{}, fmt.Errorf("has %d dimensions, more than %d", len(shape), maxDims)
	case len(offsets) != 2:
		return Info{}, fmt.Errorf("has %d data_offsets, not 2", len(offsets))
	case offsets[1] < offsets[0] || offsets[1] > math.MaxInt64:
		return Info{}, fmt.Errorf("has data_offsets [%d,%d]", offsets[0], offsets[1])
	}
	dims := make(tensor.Shape, len(shape))
	for i, d := range shape {
		hi, lo := bits.Mul64(size, d)
		if d > math.MaxInt64 || (hi != 0 || lo > math.MaxInt64) && !slices.Contains(shape, 0) {
			return Info{}, fmt.Errorf("has shape %v, which is too large", shape)
		}
		dims[i], size = int(d), lo
	}
	if size != offsets[1]-offsets[0] {
		return Info{}, fmt.Errorf("is %s%v, %d bytes, but its data_offsets [%d,%d] hold %d", t, dims, size, offsets[0], offsets[1], offsets[1]-offsets[0])
	}
	return Info{Name: name, Type: t, Shape: dims, Offset: int64(offsets[0]), Size: int64(size)}, nil
}

// sortAndCheck sorts the tensors by offset, makes offsets relative to the start of the file, and checks
// that they fill it without gaps or overlaps.
func (h *header) sortAndCheck(start, size int64) error {
	slices.SortStableFunc(h.infos, func(a, b Info) int {
		if a.Offset != b.Offset {
			return cmp.Compare(a.Offset, b.Offset)
		}
		return cmp.Compare(a.Size, b.Size)
	})
	end := int64(0)
	for i := range h.infos {
		t := &h.infos[i]
		switch {
		case t.Offset < end:
			return fmt.Errorf("tensor %q overlaps tensor %q", clip(t.Name), clip(h.infos[i-1].Name))
		case t.Offset > end:
			return fmt.Errorf("%d unused bytes before tensor %q", t.Offset-end, clip(t.Name))
		}
		end = t.Offset + t.Size
		t.Offset += start
	}
	switch have := size - start; {
	case have < end:
		return fmt.Errorf("its tensors need %d bytes, the file has %d (truncated by %d)", end, have, end-have)
	case have > end:
		return fmt.Errorf("%d unused bytes after the last tensor", have-end)
	}
	return nil
}

// clip shortens untrusted text for messages.
func clip(s string) string {
	const limit = 200
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}

func readFull(r io.ReaderAt, b []byte, at int64) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil // may come with io.EOF
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
