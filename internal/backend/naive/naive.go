package naive

import (
	"math"

	"trireme/tensor"
	"trireme/tensor/compose"
)

// Backend computes in float64. It is used by one goroutine at a time.
type Backend struct {
	compose.Ops
	meter tensor.Meter
}

var _ tensor.Backend = (*Backend)(nil)

// New makes a backend; its tensors lie on the Go heap.
func New() *Backend {
	b := &Backend{}
	b.Ops = compose.NewOps(b)
	return b
}

// Name is naive.
func (b *Backend) Name() string { return "naive" }

// Meter counts live tensors.
func (b *Backend) Meter() *tensor.Meter { return &b.meter }

// New makes a tensor whose elements are all bits set, so that reading before writing shows.
func (b *Backend) New(cat tensor.Category, dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Shape(shape).Elems() * dt.Size()
	words := make([]float64, n/8+1) // never none: an empty tensor has memory too
	mem := tensor.AsBytes(words)[:n:n]
	for i := range mem {
		mem[i] = 0xff
	}
	b.meter.Add(cat, int64(n))
	buf := tensor.NewBuffer(mem, n, cat, func(buf *tensor.Buffer) { b.meter.Add(buf.Cat, -int64(buf.Size)) })
	return tensor.Of(buf, dt, 0, shape...)
}

// Upload copies from the host.
func (b *Backend) Upload(dst *tensor.Tensor, src []byte) { copy(tensor.HostBytes(dst), src) }

// Download copies to the host.
func (b *Backend) Download(dst []byte, src *tensor.Tensor) { copy(dst, tensor.HostBytes(src)) }

// Sync has nothing to wait for.
func (b *Backend) Sync() {}

// Barrier has nothing to keep apart.
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

// write stores v, added to what is there where add is set.
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

// Fill sets every element to v.
func (b *Backend) Fill(dst *tensor.Tensor, v float64) {
	for i := range dst.Rows() {
		for j := range dst.Width() {
			set(dst, i, j, v)
		}
	}
}
