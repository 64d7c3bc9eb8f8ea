package naive

import (
	"math"

	"trireme/tensor"
	"trireme/tensor/compose"
)

// Backend computes in float64. It is not safe for concurrent use.
type Backend struct {
	compose.Ops
	meter tensor.Meter
}

var _ tensor.Backend = (*Backend)(nil)

// New makes a backend with tensors on the Go heap.
func New() *Backend {
	b := &Backend{}
	b.Ops = compose.NewOps(b)
	return b
}

// Name is naive.
func (b *Backend) Name() string { return "naive" }

// Meter counts live tensors.
func (b *Backend) Meter() *tensor.Meter { return &b.meter }

// New sets all bits (NaN in floats), to expose reads of uninitialized elements.
func (b *Backend) New(cat tensor.Category, dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Shape(shape).Elems() * dt.Size()
	words := make([]float64, n/8+1) // not empty: HostBytes must not be nil
	mem := tensor.AsBytes(words)[:n:n]
	for i := range mem {
		mem[i] = 0xff
	}
	b.meter.Add(cat, int64(n))
	buf := tensor.NewBuffer(mem, n, cat, func(buf *tensor.Buffer) { b.meter.Add(buf.Cat, -int64(buf.Size)) })
	return tensor.Of(buf, dt, 0, shape...)
}

func (b *Backend) Upload(dst *tensor.Tensor, src []byte) { copy(tensor.HostBytes(dst), src) }

func (b *Backend) Download(dst []byte, src *tensor.Tensor) { copy(dst, tensor.HostBytes(src)) }

// Sync does nothing.
func (b *Backend) Sync() {}

// Barrier does nothing.
func (b *Backend) Barrier(...*tensor.Tensor) {}

// get reads element j of row i.
func get(t *tensor.Tensor, i, j int) float64 {
	k := i*t.RowStride() + j
	switch t.DType() {
	case tensor.F32:
		return float64(tensor.Host[float32](t)[k])
	case tensor.F64:
		return tensor.Host[float64](t)[k]
	case tensor.BF16:
		return float64(math.Float32frombits(uint32(tensor.Host[uint16](t)[k]) << 16))
	case tensor.F16:
		return fromF16(tensor.Host[uint16](t)[k])
	case tensor.I32:
		return float64(tensor.Host[int32](t)[k])
	case tensor.I64:
		return float64(tensor.Host[int64](t)[k])
	case tensor.U8:
		return float64(tensor.Host[uint8](t)[k])
	}
	panic("naive: cannot read " + t.DType().String())
}

// set writes element j of row i, rounded to the element type.
func set(t *tensor.Tensor, i, j int, v float64) {
	k := i*t.RowStride() + j
	switch t.DType() {
	case tensor.F32:
		tensor.Host[float32](t)[k] = float32(v)
	case tensor.F64:
		tensor.Host[float64](t)[k] = v
	case tensor.BF16:
		tensor.Host[uint16](t)[k] = toBF16(v)
	case tensor.F16:
		tensor.Host[uint16](t)[k] = toF16(v)
	case tensor.I32:
		tensor.Host[int32](t)[k] = int32(v)
	case tensor.I64:
		tensor.Host[int64](t)[k] = int64(v)
	case tensor.U8:
		tensor.Host[uint8](t)[k] = uint8(v)
	default:
		panic("naive: cannot write " + t.DType().String())
	}
}

// write stores v, or adds it.
func write(t *tensor.Tensor, v []float64, add bool) {
	w := t.Width()
	for i := range t.Rows() {
		for j := range w {
			x := v[i*w+j]
			if add {
				x += get(t, i, j)
			}
			set(t, i, j, x)
		}
	}
}

func (b *Backend) Fill(dst *tensor.Tensor, v float64) {
	for i := range dst.Rows() {
		for j := range dst.Width() {
			set(dst, i, j, v)
		}
	}
}
