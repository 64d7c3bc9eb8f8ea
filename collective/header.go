package collective

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"trireme/tensor"
)

// Kind is the kind of an operation.
type Kind uint8

// The kinds.
const (
	KindNone Kind = iota
	KindAllGather
	KindReduceScatter
	KindAllReduce
	KindAllToAll
	KindSend
	KindRecv
	KindBarrier
	numKinds
)

var kindNames = [numKinds]string{"none", "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "send", "recv", "barrier"}

func (k Kind) String() string {
	if k >= numKinds {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

func (o Op) String() string {
	switch o {
	case Sum:
		return "sum"
	case Max:
		return "max"
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// maxTag is the number of a tag's bytes in a header; a hash covers the rest.
const maxTag = 64

// Header describes an operation to the other ranks, which compare it with theirs before data moves. It
// has no pointers, so it can be in shared memory.
type Header struct {
	Seq      uint64 // sequence number in the group, from 0; for Send and Recv, in the pair and direction
	Kind     Kind
	Op       Op
	DType    tensor.DType // of src
	Out      tensor.DType // of dst
	Flags    uint8        // 1: accumulate
	TagLen   uint8
	Count    int64  // elements of src
	TagHash  uint64 // hash of the whole tag
	Group    uint64 // hash of the group's name and ranks
	Chunks   uint64 // hash of ReduceOptions.Chunks
	TagBytes [maxTag]byte
}

// HeaderSize is the length of an encoded header.
const HeaderSize = 48 + maxTag

func newHeader(k Kind, tag string) Header {
	h := Header{Kind: k, TagHash: hash(tag)}
	h.TagLen = uint8(copy(h.TagBytes[:], tag))
	return h
}

func hash(s string) uint64 {
	f := fnv.New64a()
	f.Write([]byte(s))
	return f.Sum64()
}

// Tag returns the first maxTag bytes of the tag.
func (h *Header) Tag() string { return string(h.TagBytes[:min(h.TagLen, maxTag)]) }

// String formats the header for messages: all_gather #12 of 4096 float32 (layer 3).
func (h *Header) String() string {
	s := fmt.Sprintf("%v #%d", h.Kind, h.Seq)
	if h.Kind == KindAllReduce && h.Op != Sum {
		s = fmt.Sprintf("%v(%v) #%d", h.Kind, h.Op, h.Seq)
	}
	if h.Kind != KindBarrier && h.Kind != KindNone {
		s += fmt.Sprintf(" of %d %v", h.Count, h.DType)
		if h.Out != h.DType {
			s += " into " + h.Out.String()
		}
	}
	if h.TagLen > 0 {
		s += " (" + h.Tag() + ")"
	}
	return s
}

// matches reports whether two headers are of the same operation.
func (h *Header) matches(o *Header) bool {
	a, b := *h, *o
	if a.Kind == KindRecv {
		a.Kind = KindSend
	}
	if b.Kind == KindRecv {
		b.Kind = KindSend
	}
	return a == b
}

// difference names the most significant field in which two headers differ.
func (h *Header) difference(o *Header) string {
	switch {
	case h.Group != o.Group:
		return "group's name or ranks"
	case h.Seq != o.Seq:
		return "sequence number"
	case h.Kind != o.Kind && !(h.Kind >= KindSend && h.Kind <= KindRecv && o.Kind >= KindSend && o.Kind <= KindRecv):
		return "operation"
	case h.DType != o.DType || h.Out != o.Out:
		return "element type"
	case h.Count != o.Count:
		return "count"
	case h.Op != o.Op:
		return "reduction"
	case h.Flags != o.Flags:
		return "accumulation"
	case h.Chunks != o.Chunks:
		return "order of chunks"
	}
	return "tag"
}

// Encode appends the encoded header to b.
func (h *Header) Encode(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.Seq)
	b = append(b, byte(h.Kind), byte(h.Op), byte(h.DType), byte(h.Out), h.Flags, h.TagLen, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Count))
	b = binary.LittleEndian.AppendUint64(b, h.TagHash)
	b = binary.LittleEndian.AppendUint64(b, h.Chunks)
	b = binary.LittleEndian.AppendUint64(b, h.Group)
	return append(b, h.TagBytes[:]...)
}

var errHeader = errors.New("collective: malformed header")

// DecodeHeader decodes the result of Encode and checks ranges, so the header can be printed.
func DecodeHeader(b []byte) (Header, error) {
	if len(b) != HeaderSize {
		return Header{}, errHeader
	}
	le := binary.LittleEndian
	h := Header{
		Seq: le.Uint64(b), Kind: Kind(b[8]), Op: Op(b[9]), DType: tensor.DType(b[10]), Out: tensor.DType(b[11]),
		Flags: b[12], TagLen: b[13], Count: int64(le.Uint64(b[16:])),
		TagHash: le.Uint64(b[24:]), Chunks: le.Uint64(b[32:]), Group: le.Uint64(b[40:]),
	}
	copy(h.TagBytes[:], b[48:])
	if h.Kind == KindNone || h.Kind >= numKinds || h.Op > Max || h.DType > tensor.U8 || h.Out > tensor.U8 ||
		h.Flags > 1 || h.TagLen > maxTag || b[14]|b[15] != 0 || h.Count < 0 ||
		len(bytes.TrimRight(h.TagBytes[h.TagLen:], "\x00")) > 0 {
		return Header{}, errHeader
	}
	return h, nil
}
