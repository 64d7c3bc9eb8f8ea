package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"trireme/tensor"
)

// ErrNotFinite is wrapped by errors that say that a value is NaN or infinite.
var ErrNotFinite = errors.New("not finite")

// CheckFinite returns an error that wraps ErrNotFinite, the same on all ranks, where a value of any
// rank's shards is NaN or infinite. All ranks call it. device is as in ExportOptions.
func CheckFinite(ctx context.Context, shards []tensor.Shard, ranks Agreement, device tensor.Memory) error {
	m := memory{device}
	m.sync()
	_, err := agree(ctx, ranks, struct{}{}, checkFinite(m, shards))
	return err
}

func checkFinite(m memory, shards []tensor.Shard) error {
	buf := make([]byte, chunkBytes)
	for _, s := range shards {
		per := chunkBytes / s.DType.Size()
		for lo := 0; lo < s.Count; lo += per {
			b, err := m.bytes(s.Data, lo, min(s.Count, lo+per), buf)
			if err != nil {
				return fmt.Errorf("checkpoint: read %s: %w", s.Name, err)
			}
			if n, first := NotFinite(b, s.DType); n > 0 {
				return fmt.Errorf("checkpoint: %s %v: element %d is %w", s.Name, s.Shape, s.First+lo+first, ErrNotFinite)
			}
		}
	}
	return nil
}

// NotFinite counts the values in b, little-endian floats of type dt, that are NaN or infinite; first
// is the index of the first one. Other types have none.
func NotFinite(b []byte, dt tensor.DType) (n, first int) {
	exponent := map[tensor.DType]uint32{tensor.F32: 0x7f800000, tensor.BF16: 0x7f80, tensor.F16: 0x7c00}[dt]
	if exponent == 0 {
		return 0, 0
	}
	count := func(i int, bits uint32) {
		if bits&exponent == exponent {
			if n == 0 {
				first = i
			}
			n++
		}
	}
	if dt == tensor.F32 {
		for i := 0; 4*i < len(b); i++ {
			count(i, binary.LittleEndian.Uint32(b[4*i:]))
		}
		return n, first
	}
	for i := 0; 2*i < len(b); i++ {
		count(i, uint32(binary.LittleEndian.Uint16(b[2*i:])))
	}
	return n, first
}
