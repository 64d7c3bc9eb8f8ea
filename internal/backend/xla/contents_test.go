package xla_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/tensor"
)

// view is a view of a buffer, with the index of each element.
type view struct {
	rows, width, off, ld int
}

func (v view) of(b *tensor.Tensor) *tensor.Tensor {
	return tensor.Strided(b.Buffer(), tensor.I32, v.off, v.ld, v.rows, v.width)
}

func (v view) indices() (at []int) {
	for i := range v.rows {
		for j := range v.width {
			at = append(at, v.off+i*v.ld+j)
		}
	}
	return at
}

// randomView is a view of n elements: contiguous, columns, or rows that are no columns of the buffer.
func randomView(r *rand.Rand, rows, width, n int) view {
	ld := width
	if rows > 1 {
		ld += r.IntN((n-width)/(rows-1) - width + 1)
	}
	return view{rows, width, r.IntN(n - (rows-1)*ld - width + 1), ld}
}

// Programs of copies between random views of buffers have the results of copies between arrays.
func TestContents(t *testing.T) {
	oneGoroutine(t)
	const n, buffers, programs, copies = 24, 3, 12, 20
	b := open(t, 1)[0]
	for seed := range uint64(programs) {
		r := rand.New(rand.NewPCG(seed, 7))
		var ts []*tensor.Tensor
		var model [buffers][n]uint32
		for i := range model {
			var bytes []byte
			for j := range model[i] {
				model[i][j] = uint32(100*i + j)
				bytes = binary.LittleEndian.AppendUint32(bytes, model[i][j])
			}
			x := b.New(tensor.Activations, tensor.I32, n)
			b.Upload(x, bytes)
			ts = append(ts, x)
		}
		err := b.Compile(false, func() error {
			for range copies {
				rows, width := 1+r.IntN(4), 1+r.IntN(6)
				from := r.IntN(buffers)
				to := (from + 1 + r.IntN(buffers-1)) % buffers
				dst, src := randomView(r, rows, width, n), randomView(r, rows, width, n)
				b.Copy(dst.of(ts[to]), src.of(ts[from]))
				at := src.indices()
				for k, i := range dst.indices() {
					model[to][i] = model[from][at[k]]
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range ts {
			bytes, got := make([]byte, 4*n), make([]uint32, n)
			b.Download(bytes, x)
			for j := range got {
				got[j] = binary.LittleEndian.Uint32(bytes[4*j:])
			}
			if !slices.Equal(got, model[i][:]) {
				t.Errorf("seed %d, buffer %d: %v, want %v", seed, i, got, model[i])
			}
			x.Release()
		}
	}
}
