package xla

import (
	"fmt"

	"trireme/internal/backend/xla/cudnn"
	"trireme/tensor"
	"trireme/tensor/compose"
)

// emitter is a backend whose operations write StableHLO. Tensors are views of contents.
type emitter struct {
	*builder
	compose.Ops
	meter   tensor.Meter
	buffers map[*tensor.Buffer]*contents
	coords  map[string]value // of this rank, by axis; i32 scalars of the current region
	groups  map[string][][]int
	streams map[uint64]value // of random numbers: I64 scalars of the current iteration
	target  target
	arrays  int // without contents
}

var _ tensor.Backend = (*emitter)(nil)

// target is a platform, with limits of emitted programs.
type target struct {
	platform string // cuda, tpu, cpu
	chunking chunking
	gpu      *cudnn.Device // for attention by cuDNN; nil for none
	// deterministic states that programs have the same bits in every run; see cudnn.Attention.
	deterministic bool
	// columns is the least number of columns of a part of an operand for which two products are no slower than
	// one of the joined operand; 0 joins all.
	columns int
	// align is the number of elements of a 16-bit row after which the next one may begin; 0 is any.
	align int
}

func newTarget(platform string) target {
	t := target{platform: platform, chunking: defaultChunking}
	if platform == "cuda" {
		t.columns, t.align = 2048, 8 // 16 bytes
	}
	return t
}

func newEmitter(to target, groups map[string][][]int) *emitter {
	e := &emitter{builder: newBuilder(), buffers: map[*tensor.Buffer]*contents{}, coords: map[string]value{}, groups: groups, target: to}
	e.Ops = compose.NewOps(e)
	return e
}

func (e *emitter) Name() string         { return "xla" }
func (e *emitter) Static() bool         { return true }
func (e *emitter) Meter() *tensor.Meter { return &e.meter }

func (e *emitter) New(cat tensor.Category, dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Shape(shape).Elems()
	return tensor.Of(e.buffer(cat, dt, n), dt, 0, shape...)
}

// buffer makes a buffer without contents.
func (e *emitter) buffer(cat tensor.Category, dt tensor.DType, n int) *tensor.Buffer {
	buf := tensor.NewBuffer(nil, n*dt.Size(), cat, func(b *tensor.Buffer) { delete(e.buffers, b) })
	e.buffers[buf] = &contents{dt: dt, n: n}
	return buf
}

func (e *emitter) contents(t *tensor.Tensor) *contents {
	c := e.buffers[t.Buffer()]
	if c == nil {
		panic(fmt.Sprintf("xla: %v is not in the program", t))
	}
	if c.dt != t.DType() {
		panic(fmt.Sprintf("xla: a view %v of a buffer of %v", t, c.dt))
	}
	return c
}

// load reads a tensor in its shape.
func (e *emitter) load(t *tensor.Tensor) value { return e.number(e.loadBool(t), t.DType()) }

// loadBool is load, except that the result of a comparison stays boolean.
func (e *emitter) loadBool(t *tensor.Tensor) value {
	dims := []int(t.Shape())
	if len(dims) == 0 {
		dims = []int{1}
	}
	return e.read(e.contents(t), regionOf(t), dims)
}

func (e *emitter) number(v value, dt tensor.DType) value {
	if v.elem == boolean {
		return e.convert(v, elems[dt])
	}
	return v
}

// asMatrix reads a tensor as [Rows Width].
func (e *emitter) asMatrix(t *tensor.Tensor) value {
	return e.reshape(e.load(t), t.Rows(), t.Width())
}

// store writes v, of any shape, converted.
func (e *emitter) store(t *tensor.Tensor, v value) {
	if v.elem != boolean || t.DType() != tensor.U8 {
		v = e.convert(v, elems[t.DType()])
	}
	if v.size() != t.Elems() {
		panic(fmt.Sprintf("xla: %v for %v", v.typ(), t))
	}
	e.contents(t).write(regionOf(t), v)
}

func (e *emitter) Upload(dst *tensor.Tensor, src []byte)   { panic("xla: Upload within an operation") }
func (e *emitter) Download(dst []byte, src *tensor.Tensor) { panic("xla: Download within a program") }
func (e *emitter) Sync()                                   { panic("xla: Sync within a program") }

// untouched reports whether t is in a slice of what exists before an iteration of a loop, which nothing in it has
// read or written.
func (e *emitter) untouched(t *tensor.Tensor) bool {
	c := e.contents(t)
	return c.base != nil && len(c.entries) == 0 && !c.read
}

// Barrier writes ts with values that exist once all of them do. It leaves out what exists anyway and has no earlier
// operation that a later one could be merged with: a compiler would copy it.
func (e *emitter) Barrier(ts ...*tensor.Tensor) {
	var in []value
	var used []*tensor.Tensor
	for _, t := range ts {
		if t != nil && t.Elems() > 0 && !e.untouched(t) {
			in, used = append(in, e.load(t)), append(used, t)
		}
	}
	for i, v := range e.barrier(in) {
		e.store(used[i], v)
	}
}

func (e *emitter) Fill(dst *tensor.Tensor, v float64) {
	e.store(dst, e.splat(elems[dst.DType()], v, dst.Shape()...))
}

func (e *emitter) Copy(dst, src *tensor.Tensor) {
	v := e.loadBool(src)
	if v.elem == boolean && dst.DType() != tensor.U8 {
		v = e.convert(v, elems[dst.DType()])
	}
	if v.elem.float() && !elems[dst.DType()].float() && dst.DType() != tensor.I64 {
		v = e.convert(v, "i64") // wide to narrow integers drop bits
	}
	e.store(dst, v)
}

func (e *emitter) Swap(dst, x *tensor.Tensor) {
	e.store(dst, e.transpose(e.load(x), 0, 2, 1, 3))
}

func (e *emitter) Iota(dst *tensor.Tensor, dim int) {
	e.store(dst, e.op("iota", fmt.Sprintf("iota_dimension = %d : i64", dim), elems[dst.DType()], []int{dst.Rows(), dst.Width()}))
}

var unaryNames = [...]string{
	tensor.Abs: "abs", tensor.Exp: "exponential", tensor.Log: "log", tensor.Log1p: "log_plus_one", tensor.Sqrt: "sqrt",
	tensor.Tanh: "tanh", tensor.Erf: "chlo.erf", tensor.Logistic: "logistic", tensor.Sin: "sine", tensor.Cos: "cosine", tensor.Floor: "floor",
}

func (e *emitter) Unary(dst, x *tensor.Tensor, op tensor.UnaryOp) {
	v := e.convert(e.asMatrix(x), elems[compose.Wide(x.DType())])
	e.store(dst, e.matrix(e.op(unaryNames[op], "", v.elem, v.dims, v), dst.Rows(), dst.Width()))
}

var binaryNames = [...]string{
	tensor.Add: "add", tensor.Sub: "subtract", tensor.Mul: "multiply", tensor.Div: "divide", tensor.Max: "maximum", tensor.Min: "minimum",
	tensor.Rem: "remainder", tensor.And: "and", tensor.Or: "or", tensor.Xor: "xor", tensor.Shl: "shift_left", tensor.Shr: "shift_right_arithmetic", tensor.Ushr: "shift_right_logical",
	tensor.Eq: "EQ", tensor.Ne: "NE", tensor.Lt: "LT", tensor.Le: "LE", tensor.Gt: "GT", tensor.Ge: "GE",
}

func (e *emitter) Binary(dst, x, y *tensor.Tensor, op tensor.BinaryOp) {
	rows, width := dst.Rows(), dst.Width()
	if v, ok := e.logical(dst, x, y, op); ok {
		e.store(dst, v)
		return
	}
	dt, ok := tensor.Arithmetic(x.DType(), y.DType())
	if !ok {
		panic(fmt.Sprintf("xla: %v of %v and %v", op, x, y))
	}
	u := e.matrix(e.convert(e.asMatrix(x), elems[dt]), rows, width)
	v := e.matrix(e.convert(e.asMatrix(y), elems[dt]), rows, width)
	if op.Compares() {
		e.store(dst, e.compare(u, v, binaryNames[op]))
		return
	}
	e.store(dst, e.binary(binaryNames[op], u, v))
}

// logical is And, Or or Xor of results of comparisons.
func (e *emitter) logical(dst, x, y *tensor.Tensor, op tensor.BinaryOp) (value, bool) {
	if dst.DType() != tensor.U8 || x.DType() != tensor.U8 || y.DType() != tensor.U8 || op != tensor.And && op != tensor.Or && op != tensor.Xor {
		return value{}, false
	}
	in := []value{e.loadBool(x), e.loadBool(y)}
	for i, t := range []*tensor.Tensor{x, y} {
		if k, ok := e.known[in[i].id]; in[i].elem != boolean && ok && (k == 0 || k == 1) {
			in[i] = e.splat(boolean, k, in[i].dims...)
		}
		if in[i].elem != boolean {
			return value{}, false
		}
		in[i] = e.matrix(e.reshape(in[i], t.Rows(), t.Width()), dst.Rows(), dst.Width())
	}
	return e.binary(binaryNames[op], in[0], in[1]), true
}

func (e *emitter) Select(dst, cond, x, y *tensor.Tensor) {
	rows, width := dst.Rows(), dst.Width()
	dt, _ := tensor.Arithmetic(x.DType(), y.DType())
	pred := e.matrix(e.reshape(e.convert(e.loadBool(cond), boolean), cond.Rows(), cond.Width()), rows, width)
	u := e.matrix(e.convert(e.asMatrix(x), elems[dt]), rows, width)
	v := e.matrix(e.convert(e.asMatrix(y), elems[dt]), rows, width)
	e.store(dst, e.selects(pred, u, v))
}

func (e *emitter) Reduce(dst, x *tensor.Tensor, dim int, op tensor.BinaryOp, acc tensor.DType) {
	v := e.convert(e.asMatrix(x), elems[acc])
	if op == tensor.Add {
		e.store(dst, e.sum(v, dim))
		return
	}
	e.store(dst, e.reduce(v, dim, binaryNames[op], extreme(v.elem, op)))
}

// sum adds over dimension dim. A few columns of integers are operands of additions, which a compiler
// fuses with others where it would not fuse a reduction.
func (e *emitter) sum(v value, dim int) value {
	rows, width := v.dims[0], v.dims[1]
	if dim == 0 || v.elem.float() || width == 0 || width > fewRows {
		return e.reduce(v, dim, "add", 0)
	}
	column := func(i int) value { return e.slice(v, []int{0, i}, []int{rows, i + 1}) }
	sum := column(0)
	for i := 1; i < width; i++ {
		sum = e.binary("add", sum, column(i))
	}
	return e.reshape(sum, rows)
}

func (e *emitter) GatherRows(dst, table, ids *tensor.Tensor) {
	n, d := dst.Rows(), dst.Width()
	if d != table.Width() || n != ids.Elems() {
		panic(fmt.Sprintf("xla: rows %v of %v for %v", ids, table, dst))
	}
	e.store(dst, e.rows(e.asMatrix(table), e.flat(e.load(ids))))
}

// fewRows is the number of rows of a table whose elements selects choose, without a gather.
const fewRows = 8

// rows gathers rows of a matrix.
func (e *emitter) rows(table, ids value) value {
	n, d := ids.size(), table.dims[1]
	if d == 1 && table.dims[0] > 0 && table.dims[0] <= fewRows {
		row := func(i int) value { return e.broadcast(e.reshape(e.slice(table, []int{i, 0}, []int{i + 1, 1})), nil, n) }
		v := row(table.dims[0] - 1)
		for i := table.dims[0] - 2; i >= 0; i-- {
			v = e.selects(e.compare(ids, e.splat(ids.elem, float64(i), n), "EQ"), row(i), v)
		}
		return e.reshape(v, n, 1)
	}
	return e.op("gather", fmt.Sprintf("dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, %d>", d),
		table.elem, []int{n, d}, table, e.reshape(ids, n, 1))
}

// WriteRows overwrites a slice.
func (e *emitter) WriteRows(dst, x, at *tensor.Tensor) {
	v := e.convert(e.asMatrix(x), elems[dst.DType()])
	e.store(dst, e.update(e.asMatrix(dst), v, e.reshape(e.load(at)), e.i32(0)))
}
