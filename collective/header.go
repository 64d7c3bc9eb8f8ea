package collective

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"trireme/tensor"
)

// Kind is what an operation does.
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

// maxTag is what of a tag travels; a hash stands for the rest.
const maxTag = 64

// Header describes an operation to the other ranks, which compare it with their own before
// any data is used. It holds no pointers, so that it can lie in memory that processes share.
type Header struct {
	Seq      uint64 // of the operation in its group, from 0; of its pair and direction for Send and Recv
	Kind     Kind
	Op       Op
	DType    tensor.DType // of src
	Out      tensor.DType // of dst
	Flags    uint8        // 1: accumulate
	TagLen   uint8
	Count    int64  // elements of src
	TagHash  uint64 // of the whole tag
	Group    uint64 // hash of the group's name and ranks
	Plan     uint64 // hash of ReduceOptions.Chunks
	TagBytes [maxTag]byte
}

// HeaderSize is the number of bytes that Encode writes.
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

// Tag is what of the tag travelled.
func (h *Header) Tag() string { return string(h.TagBytes[:min(h.TagLen, maxTag)]) }

// String is for people: all_gather #12 of 4096 float32 (layer 3).
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

// matches says whether two ranks mean the same operation.
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

// difference says in what two headers differ, most telling first.
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
	case h.Plan != o.Plan:
		return "order of chunks"
	}
	return "tag"
}

// Encode appends the header as it travels between processes.
func (h *Header) Encode(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.Seq)
	b = append(b, byte(h.Kind), byte(h.Op), byte(h.DType), byte(h.Out), h.Flags, h.TagLen, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Count))
	b = binary.LittleEndian.AppendUint64(b, h.TagHash)
	b = binary.LittleEndian.AppendUint64(b, h.Plan)
	b = binary.LittleEndian.AppendUint64(b, h.Group)
	return append(b, h.TagBytes[:]...)
}

var errHeader = errors.New("collective: not a header")

// DecodeHeader reads what Encode wrote. It checks ranges, so that what it returns can be
// printed and compared.
func DecodeHeader(b []byte) (Header, error) {
	if len(b) != HeaderSize {
		return Header{}, errHeader
	}
	le := binary.LittleEndian
	h := Header{
		Seq: le.Uint64(b), Kind: Kind(b[8]), Op: Op(b[9]), DType: tensor.DType(b[10]), Out: tensor.DType(b[11]),
		Flags: b[12], TagLen: b[13], Count: int64(le.Uint64(b[16:])),
		TagHash: le.Uint64(b[24:]), Plan: le.Uint64(b[32:]), Group: le.Uint64(b[40:]),
	}
	copy(h.TagBytes[:], b[48:])
	if h.Kind == KindNone || h.Kind >= numKinds || h.Op > Max || h.DType > tensor.U8 || h.Out > tensor.U8 ||
		h.Flags > 1 || h.TagLen > maxTag || b[14]|b[15] != 0 || h.Count < 0 ||
		len(bytes.TrimRight(h.TagBytes[h.TagLen:], "\x00")) > 0 {
		return Header{}, errHeader
	}
	return h, nil
}
