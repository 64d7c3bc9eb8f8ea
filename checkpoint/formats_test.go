package checkpoint

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// olderFormats are checkpoints of older versions: format 1 by one rank, format 2 by three, with
// runs that start and end within rows.
var olderFormats = []string{
	"../internal/cli/testdata/format1/out/checkpoints/step-2",
	"../internal/cli/testdata/format2/out/checkpoints/step-2",
}

// TestOlderFormats compares loaded boxes with the runs in the data files, named key[first:end].
func TestOlderFormats(t *testing.T) {
	for _, dir := range olderFormats {
		c, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		readEvery(t, c)
		cut := 0
		for _, x := range c.Tensors() {
			size := x.DType.Size()
			whole := make([]byte, x.Shape.Elems()*size)
			files, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
			for _, path := range files {
				f, err := safetensors.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, run := range f.Tensors() {
					var first, end int
					if n, _ := fmt.Sscanf(run.Name, key(x.Kind, x.Name)+"[%d:%d]", &first, &end); n < 2 {
						continue
					}
					cut++
					if err := f.ReadRange(run.Name, 0, end-first, whole[first*size:end*size]); err != nil {
						t.Fatal(err)
					}
				}
				f.Close()
			}
			rng := rand.New(rand.NewPCG(3, 3))
			for range 4 {
				for _, b := range guillotine(tensor.FullBox(x.Shape), rng, 3) {
					n := b.Elems() * size
					data := tensor.Of(tensor.NewBuffer(make([]byte, n), n, tensor.Params, nil), x.DType, 0, b.Elems())
					it := Item{x.Kind, tensor.Shard{Name: x.Name, DType: x.DType, Shape: x.Shape, Box: b, Data: data}}
					if err := c.Load(t.Context(), []Item{it}, LoadOptions{}); err != nil {
						t.Fatal(err)
					}
					var want []byte
					for run := range it.Runs() {
						want = append(want, whole[run.Y*size:(run.Y+run.N)*size]...)
					}
					if !bytes.Equal(tensor.HostBytes(data), want) {
						t.Errorf("%s: %v of %s differs", dir, b, key(x.Kind, x.Name))
					}
				}
			}
		}
		if cut < len(c.Tensors()) {
			t.Errorf("%s names %d runs of %d tensors", dir, cut, len(c.Tensors()))
		}
	}
}
