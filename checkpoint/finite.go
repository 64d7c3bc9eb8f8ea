package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"trireme/tensor"
)

// ErrNotFinite is wrapped by errors about NaN or infinite values.
var ErrNotFinite = errors.New("not finite")

// CheckFinite returns an error that wraps ErrNotFinite, the same on all ranks, if any rank's shards
// hold a NaN or infinite value. All ranks call it. device is as in ExportOptions.
func CheckFinite(ctx context.Context, shards []tensor.Shard, ranks ProcessGroup, device tensor.Memory) error {
	m := memory{device}
	m.sync()
	_, err := agree(ctx, ranks, struct{}{}, checkFinite(m, shards))
	return err
}

func checkFinite(m memory, shards []tensor.Shard) error {
	return eachChunk(m, shards, func(s tensor.Shard, lo int, b []byte) error {
		if n, first := NotFinite(b, s.DType); n > 0 {
			return fmt.Errorf("checkpoint: %s %v: element %v is %w", s.Name, s.Shape, s.Box.Range(lo+first, lo+first+1)[0].Offsets, ErrNotFinite)
		}
		return nil
	})
}

// EachChunk calls f with the bytes of shards, in chunks of bounded size: those of element lo of the shard and
// later ones. They are valid during the call. device is where shards that are not in host memory are; it is nil
// for none.
func EachChunk(device tensor.Memory, shards []tensor.Shard, f func(s tensor.Shard, lo int, b []byte) error) error {
	m := memory{device}
	m.sync()
	return eachChunk(m, shards, f)
}

func eachChunk(m memory, shards []tensor.Shard, f func(s tensor.Shard, lo int, b []byte) error) error {
	buf := make([]byte, chunkBytes)
	for _, s := range shards {
		per := chunkBytes / s.DType.Size()
		for lo, n := 0, s.Box.Elems(); lo < n; lo += per {
			b, err := m.bytes(s.Data, lo, min(n, lo+per), buf)
			if err != nil {
				return fmt.Errorf("checkpoint: read %s: %w", s.Name, err)
			}
			if err := f(s, lo, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// exponent has, for each number in 8 bytes, the mask of its exponent bits, the lowest of them, and the
// sign bit: all ones + lowest carries into the sign.
type exponent struct{ all, lowest, sign uint64 }

var exponents = map[tensor.DType]exponent{
	tensor.F32:  {0x7f8000007f800000, 0x0080000000800000, 0x8000000080000000},
	tensor.BF16: {0x7f807f807f807f80, 0x0080008000800080, 0x8000800080008000},
	tensor.F16:  {0x7c007c007c007c00, 0x0400040004000400, 0x8000800080008000},
}

// finiteBlock is the number of bytes that finite checks at once.
const finiteBlock = 64

// finite reports whether a block has no NaN and no infinite value.
func (e exponent) finite(b *[finiteBlock]byte) bool {
	carry := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:at+8])&e.all + e.lowest }
	return (carry(0)|carry(8)|carry(16)|carry(24)|carry(32)|carry(40)|carry(48)|carry(56))&e.sign == 0
}

// NotFinite counts the NaN and infinite values in b, little-endian floats of type dt; first is the
// index of the first. It is 0 for other types.
func NotFinite(b []byte, dt tensor.DType) (n, first int) {
	e, ok := exponents[dt]
	if !ok {
		return 0, 0
	}
	size := dt.Size()
	for at := 0; at < len(b); at += 8 {
		for len(b)-at >= finiteBlock && e.finite((*[finiteBlock]byte)(b[at:])) {
			at += finiteBlock
		}
		var word uint64
		if len(b)-at >= 8 {
			word = binary.LittleEndian.Uint64(b[at:])
		} else { // the tail
			for i, x := range b[at:] {
				word |= uint64(x) << (8 * i)
			}
		}
		for left := (word&e.all + e.lowest) & e.sign; left != 0; left &= left - 1 {
			if n == 0 {
				first = (at + bits.TrailingZeros64(left)/8) / size
			}
			n++
		}
	}
	return n, first
}
