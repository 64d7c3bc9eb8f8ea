package checkpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"trireme/tensor"
)

// StateDigest returns the SHA-256 of all tensors: for each, by kind and name, a line "KIND NAME TYPE SHAPE" with quoted
// names, then its elements in row-major order. Two checkpoints have the same digest if all weights and all optimizer
// state have the same bits, whatever ranks, strategy and files they were saved with. Like Load, it checks the CRC of
// each chunk.
func (c *Checkpoint) StateDigest(ctx context.Context) (sum [sha256.Size]byte, err error) {
	ts := c.Tensors()
	slices.SortFunc(ts, func(a, b Tensor) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	h := sha256.New()
	r := reader{c: c, chunk: make([]byte, c.m.ChunkBytes)}
	at := tensor.NewBuffer(make([]byte, c.m.ChunkBytes), c.m.ChunkBytes, tensor.Params, nil)
	for _, t := range ts {
		fmt.Fprintf(h, "%q %q %v %v\n", t.Kind, t.Name, t.DType, []int(t.Shape))
		per, all := c.m.ChunkBytes/t.DType.Size(), tensor.FullBox(t.Shape)
		for lo := 0; lo < all.Elems(); lo += per {
			for _, b := range all.Range(lo, min(all.Elems(), lo+per)) {
				data := tensor.Of(at, t.DType, 0, b.Elems())
				if err := r.item(ctx, Item{t.Kind, tensor.Shard{Name: t.Name, DType: t.DType, Shape: t.Shape, Box: b, Data: data}}); err != nil {
					return sum, err
				}
				h.Write(tensor.HostBytes(data))
			}
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
