package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// Difference compares a tensor of two checkpoints, element by element.
type Difference struct {
	Kind, Name string
	A, B       *Tensor // nil: the checkpoint lacks it
	// Compared reports that both have it in one shape; the rest is 0 otherwise.
	Compared bool
	Elems    int64
	Equal    int64   // elements of the same value; of the same bits for equal dtypes
	MaxAbs   float64 // largest |a-b|; over finite pairs, as the following
	Relative float64 // sqrt(sum (a-b)^2 / sum a^2); infinite if all a are 0 and a b is not
	// NotFinite counts pairs that differ and have a NaN or an infinite value.
	NotFinite int64
}

// Same reports whether both checkpoints have the tensor with equal dtype, shape and values.
func (d Difference) Same() bool {
	return d.Compared && d.Equal == d.Elems && d.A.DType == d.B.DType
}

// diffElems is the number of elements that are compared at once.
const diffElems = 1 << 20

// Diff compares the tensors of two checkpoints, or those of one kind if kind is not empty, whatever the ranks and
// strategies that saved them: in the order of a, then those of b alone. It verifies the checksums of all it reads and
// needs memory for diffElems elements of each.
func Diff(ctx context.Context, a, b *Checkpoint, kind string) ([]Difference, error) {
	var out []Difference
	ra, rb, others := newRangeReader(a), newRangeReader(b), b.Tensors()
	for i, t := range a.Tensors() {
		if kind != "" && t.Kind != kind {
			continue
		}
		d := Difference{Kind: t.Kind, Name: t.Name, A: &t}
		if j, ok := b.index[a.m.Tensors[i].key()]; ok {
			other := others[j]
			d.B = &other
			if d.Compared = t.Shape.Equal(other.Shape); d.Compared {
				if err := d.compare(ctx, ra, rb); err != nil {
					return nil, err
				}
			}
		}
		out = append(out, d)
	}
	for i, t := range others {
		if _, ok := a.index[b.m.Tensors[i].key()]; !ok && (kind == "" || t.Kind == kind) {
			out = append(out, Difference{Kind: t.Kind, Name: t.Name, B: &t})
		}
	}
	return out, nil
}

func (d *Difference) compare(ctx context.Context, a, b *rangeReader) error {
	n := d.A.Shape.Elems()
	d.Elems = int64(n)
	var squares, of float64
	for lo := 0; lo < n; lo += diffElems {
		hi := min(n, lo+diffElems)
		x, err := a.read(ctx, *d.A, lo, hi)
		if err != nil {
			return err
		}
		y, err := b.read(ctx, *d.B, lo, hi)
		if err != nil {
			return err
		}
		u, v := a.float64s(x, d.A.DType), b.float64s(y, d.B.DType)
		bitwise, size := d.A.DType == d.B.DType, d.A.DType.Size()
		for i := range u {
			finite := !math.IsNaN(u[i]-u[i]) && !math.IsNaN(v[i]-v[i]) // infinity minus itself is NaN too
			if finite {
				d.MaxAbs = max(d.MaxAbs, math.Abs(u[i]-v[i]))
				squares += (u[i] - v[i]) * (u[i] - v[i])
				of += u[i] * u[i]
			}
			same := u[i] == v[i]
			if bitwise {
				same = bytes.Equal(x[i*size:(i+1)*size], y[i*size:(i+1)*size])
			}
			switch {
			case same:
				d.Equal++
			case !finite:
				d.NotFinite++
			}
		}
	}
	if squares > 0 {
		d.Relative = math.Sqrt(squares / of)
	}
	return nil
}

// rangeReader reads ranges of elements of full tensors into buffers that it reuses.
type rangeReader struct {
	r       reader
	b       []byte
	widened []byte
	values  []float64
}

func newRangeReader(c *Checkpoint) *rangeReader {
	return &rangeReader{r: reader{c: c, chunk: make([]byte, c.m.ChunkBytes)}}
}

// read returns elements [lo, hi) of a tensor, in row-major order.
func (r *rangeReader) read(ctx context.Context, t Tensor, lo, hi int) ([]byte, error) {
	size := t.DType.Size()
	if n := (hi - lo) * size; cap(r.b) < n {
		r.b = make([]byte, max(n, min(diffElems*size, t.Shape.Elems()*size)))
	}
	r.b = r.b[:(hi-lo)*size]
	data := tensor.Of(tensor.NewBuffer(r.b, len(r.b), tensor.Params, nil), t.DType, 0, hi-lo)
	at := 0
	for _, box := range tensor.FullBox(t.Shape).Range(lo, hi) {
		it := Item{t.Kind, tensor.Shard{Name: t.Name, DType: t.DType, Shape: t.Shape, Box: box, Data: data.Flat(at, at+box.Elems())}}
		if err := r.r.item(ctx, it); err != nil {
			return nil, err
		}
		at += box.Elems()
	}
	return r.b, nil
}

// float64s decodes little-endian elements.
func (r *rangeReader) float64s(b []byte, dt tensor.DType) []float64 {
	le, size := binary.LittleEndian, dt.Size()
	n := len(b) / size
	if safetensors.Convertible(dt, tensor.F32) && dt != tensor.F32 {
		if len(r.widened) < 4*n {
			r.widened = make([]byte, 4*n)
		}
		safetensors.Convert(r.widened[:4*n], tensor.F32, b, dt)
		b, dt, size = r.widened, tensor.F32, 4
	}
	if cap(r.values) < n {
		r.values = make([]float64, n)
	}
	out := r.values[:n]
	for i := range out {
		switch e := b[i*size:]; dt {
		case tensor.F32:
			out[i] = float64(math.Float32frombits(le.Uint32(e)))
		case tensor.F64:
			out[i] = math.Float64frombits(le.Uint64(e))
		case tensor.I32:
			out[i] = float64(int32(le.Uint32(e)))
		case tensor.I64:
			out[i] = float64(int64(le.Uint64(e)))
		default:
			out[i] = float64(e[0])
		}
	}
	return out
}
