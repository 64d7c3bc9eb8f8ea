package convert

import (
	"context"
	"fmt"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// openOwn opens a checkpoint of this program. Every byte that is read is verified.
func (s *Source) openOwn() error {
	c, err := checkpoint.Open(s.Path)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, c.Close)
	m := c.Meta()
	s.Step, s.Format = m.Step, fmt.Sprintf("a checkpoint of step %d", m.Step)
	for _, t := range c.Tensors() {
		s.Tensors = append(s.Tensors, Tensor{t.Kind, t.Name, safetensors.TypeOf(t.DType), t.Shape, func(first, count int, dst []byte) error {
			return readOwn(c, t, first, count, dst)
		}})
	}
	return nil
}

// readOwn reads a range of a tensor, box by box.
func readOwn(c *checkpoint.Checkpoint, t checkpoint.Tensor, first, count int, dst []byte) error {
	var items []checkpoint.Item
	for _, box := range tensor.FullBox(t.Shape).Range(first, first+count) {
		n := box.Elems() * t.DType.Size()
		buf := tensor.NewBuffer(dst[:n:n], n, tensor.Params, nil)
		items = append(items, checkpoint.Item{Kind: t.Kind, Shard: tensor.Shard{
			Name: t.Name, DType: t.DType, Shape: t.Shape, Box: box, Data: tensor.Of(buf, t.DType, 0, box.Elems()),
		}})
		dst = dst[n:]
	}
	return c.Load(context.Background(), items, checkpoint.LoadOptions{})
}
