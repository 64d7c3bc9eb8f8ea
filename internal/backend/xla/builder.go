package xla

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trireme/tensor"
)

// elem is an element type of StableHLO.
type elem string

const boolean elem = "i1"

var elems = [...]elem{
	tensor.F32: "f32", tensor.BF16: "bf16", tensor.F16: "f16", tensor.F64: "f64",
	tensor.I32: "i32", tensor.I64: "i64", tensor.U8: "ui8",
}

func (e elem) float() bool { return strings.Contains(string(e), "f") }

// value is a value of a program: an array in row-major order.
type value struct {
	id   string
	elem elem
	dims []int
}

func (v value) size() int { return tensor.Shape(v.dims).Elems() }

func (v value) String() string { return v.id }

// typ is the type of an array, such as tensor<2x3xf32>.
func typ(e elem, dims []int) string {
	var b strings.Builder
	b.WriteString("tensor<")
	for _, d := range dims {
		b.WriteString(strconv.Itoa(d))
		b.WriteByte('x')
	}
	b.WriteString(string(e))
	b.WriteByte('>')
	return b.String()
}

func (v value) typ() string { return typ(v.elem, v.dims) }

// builder writes the body of a function in StableHLO's generic form, which all versions of the
// dialect read.
type builder struct {
	out    strings.Builder
	indent string
	last   int                // number of the last value
	consts map[string]value   // constants of this region, by text
	known  map[string]float64 // element of a splat of this region, not rounded to its type
}

func newBuilder() *builder {
	return &builder{indent: "    ", consts: map[string]value{}, known: map[string]float64{}}
}

func (b *builder) fresh(e elem, dims []int) value {
	b.last++
	return value{"%" + strconv.Itoa(b.last), e, dims}
}

func ids(vs []value) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.id
	}
	return strings.Join(s, ", ")
}

func types(vs []value) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.typ()
	}
	return strings.Join(s, ", ")
}

// line writes an operation with any number of results.
func (b *builder) line(results []value, name, attrs string, operands []value, regions string) {
	b.out.WriteString(b.indent)
	if len(results) > 0 {
		b.out.WriteString(ids(results) + " = ")
	}
	fmt.Fprintf(&b.out, "%q(%s)%s", name, ids(operands), regions)
	if attrs != "" {
		b.out.WriteString(" {" + attrs + "}")
	}
	of := types(results)
	if len(results) != 1 {
		of = "(" + of + ")"
	}
	fmt.Fprintf(&b.out, " : (%s) -> %s\n", types(operands), of)
}

// op writes an operation of StableHLO with one result.
func (b *builder) op(name, attrs string, e elem, dims []int, operands ...value) value {
	return b.region(name, attrs, "", e, dims, operands...)
}

// region is op with a region.
func (b *builder) region(name, attrs, region string, e elem, dims []int, operands ...value) value {
	v := b.fresh(e, dims)
	if !strings.Contains(name, ".") {
		name = "stablehlo." + name
	}
	b.line([]value{v}, name, attrs, operands, region)
	return v
}

// literal is a number as MLIR reads it.
func literal(e elem, v float64) string {
	switch {
	case e == boolean:
		return strconv.FormatBool(v != 0)
	case !e.float():
		return strconv.FormatInt(integer(v), 10)
	case math.IsInf(v, 0) || math.IsNaN(v):
		return nonFinite(e, v)
	}
	s := strconv.FormatFloat(v, 'e', -1, 64)
	if !strings.Contains(s, ".") {
		s = strings.Replace(s, "e", ".0e", 1)
	}
	return s
}

// integer converts to int64, saturating.
func integer(v float64) int64 {
	if v >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(v)
}

func nonFinite(e elem, v float64) string {
	bits := map[elem][3]string{
		"f64": {"0x7FF0000000000000", "0xFFF0000000000000", "0x7FF8000000000000"}, "f32": {"0x7F800000", "0xFF800000", "0x7FC00000"},
		"bf16": {"0x7F80", "0xFF80", "0x7FC0"}, "f16": {"0x7C00", "0xFC00", "0x7E00"},
	}[e]
	switch {
	case math.IsInf(v, 1):
		return bits[0]
	case math.IsInf(v, -1):
		return bits[1]
	}
	return bits[2]
}

// splat is an array of equal elements.
func (b *builder) splat(e elem, v float64, dims ...int) value {
	if e != boolean && !e.float() && e == "ui8" {
		v = float64(uint8(int64(v)))
	}
	text := "value = dense<" + literal(e, v) + "> : " + typ(e, dims)
	if c, ok := b.consts[text]; ok {
		return c
	}
	c := b.op("constant", text, e, slices.Clone(dims))
	b.consts[text], b.known[c.id] = c, v
	return c
}

// words64 is a small constant array of i64.
func (b *builder) words64(vs []uint64) value {
	text := make([]string, len(vs))
	for i, v := range vs {
		text[i] = strconv.FormatInt(int64(v), 10)
	}
	return b.constants("i64", text)
}

// table is a small constant array.
func (b *builder) table(e elem, vs []float64) value {
	text := make([]string, len(vs))
	for i, v := range vs {
		text[i] = literal(e, v)
	}
	return b.constants(e, text)
}

func (b *builder) constants(e elem, literals []string) value {
	dims := []int{len(literals)}
	text := fmt.Sprintf("value = dense<[%s]> : %s", strings.Join(literals, ", "), typ(e, dims))
	c, ok := b.consts[text]
	if !ok {
		c = b.op("constant", text, e, dims)
		b.consts[text] = c
	}
	return c
}

func (b *builder) convert(v value, e elem) value {
	if v.elem == e {
		return v
	}
	if k, ok := b.known[v.id]; ok {
		if k = rounded(v.elem, k); e.float() || k == math.Trunc(k) {
			return b.splat(e, k, v.dims...)
		}
	}
	if e == boolean {
		return b.compare(v, b.splat(v.elem, 0, v.dims...), "NE")
	}
	return b.op("convert", "", e, v.dims, v)
}

func (b *builder) reshape(v value, dims ...int) value {
	if slices.Equal(v.dims, dims) {
		return v
	}
	if k, ok := b.known[v.id]; ok {
		return b.splat(v.elem, k, dims...)
	}
	return b.op("reshape", "", v.elem, slices.Clone(dims), v)
}

func (b *builder) flat(v value) value { return b.reshape(v, v.size()) }

func list(vs []int) string {
	if len(vs) == 0 {
		return "array<i64>"
	}
	return "array<i64: " + commas(vs) + ">"
}

func commas(vs []int) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = strconv.Itoa(v)
	}
	return strings.Join(s, ", ")
}

// broadcast makes v's dimensions those numbered at of the result.
func (b *builder) broadcast(v value, at []int, dims ...int) value {
	if k, ok := b.known[v.id]; ok {
		return b.splat(v.elem, k, dims...)
	}
	if slices.Equal(v.dims, dims) {
		return v
	}
	return b.op("broadcast_in_dim", "broadcast_dimensions = "+list(at), v.elem, slices.Clone(dims), v)
}

// matrix broadcasts a matrix with one row, column or element to rows x width.
func (b *builder) matrix(v value, rows, width int) value {
	if slices.Equal(v.dims, []int{rows, width}) {
		return v
	}
	switch {
	case v.size() == 1:
		return b.broadcast(b.reshape(v), nil, rows, width)
	case v.dims[0] == 1:
		return b.broadcast(b.reshape(v, v.dims[1]), []int{1}, rows, width)
	}
	return b.broadcast(b.reshape(v, v.dims[0]), []int{0}, rows, width)
}

func (b *builder) transpose(v value, order ...int) value {
	dims := make([]int, len(order))
	for i, o := range order {
		dims[i] = v.dims[o]
	}
	return b.op("transpose", "permutation = "+list(order), v.elem, dims, v)
}

// slice is elements [from, to) of each dimension.
func (b *builder) slice(v value, from, to []int) value {
	dims, one := make([]int, len(from)), make([]int, len(from))
	whole := true
	for i := range from {
		dims[i], one[i] = to[i]-from[i], 1
		whole = whole && dims[i] == v.dims[i]
	}
	if whole {
		return v
	}
	if k, ok := b.known[v.id]; ok {
		return b.splat(v.elem, k, dims...)
	}
	return b.op("slice", fmt.Sprintf("limit_indices = %s, start_indices = %s, strides = %s", list(to), list(from), list(one)), v.elem, dims, v)
}

func (b *builder) concat(dim int, vs ...value) value {
	if len(vs) == 1 {
		return vs[0]
	}
	dims := slices.Clone(vs[0].dims)
	for _, v := range vs[1:] {
		dims[dim] += v.dims[dim]
	}
	if table, ok := b.knownTable(dims, vs); ok {
		return table
	}
	return b.op("concatenate", fmt.Sprintf("dimension = %d : i64", dim), vs[0].elem, dims, vs...)
}

// maxTable is the number of elements of a constant array; 256 of F32 are 1 KB.
const maxTable = 256

// knownTable is an array of known numbers as one constant, if it is small.
func (b *builder) knownTable(dims []int, vs []value) (value, bool) {
	e := vs[0].elem
	if len(dims) != 1 || dims[0] > maxTable || e == boolean {
		return value{}, false
	}
	var all []float64
	for _, v := range vs {
		k, ok := b.known[v.id]
		if !ok {
			return value{}, false
		}
		all = append(all, slices.Repeat([]float64{k}, v.size())...)
	}
	return b.table(e, all), true
}

// pad appends elements 0.
func (b *builder) pad(v value, before, after []int) value {
	dims, none := make([]int, len(after)), make([]int, len(after))
	for i := range after {
		dims[i] = before[i] + v.dims[i] + after[i]
	}
	if slices.Equal(dims, v.dims) {
		return v
	}
	return b.op("pad", fmt.Sprintf("edge_padding_high = %s, edge_padding_low = %s, interior_padding = %s", list(after), list(before), list(none)), v.elem, dims, v, b.splat(v.elem, 0))
}

// dynamicSlice is a slice of dims elements from indices (i32 scalars).
func (b *builder) dynamicSlice(v value, dims []int, indices ...value) value {
	return b.op("dynamic_slice", "slice_sizes = "+list(dims), v.elem, slices.Clone(dims), append([]value{v}, indices...)...)
}

// update replaces a slice from indices (i32 scalars).
func (b *builder) update(v, by value, indices ...value) value {
	return b.op("dynamic_update_slice", "", v.elem, v.dims, append([]value{v, by}, indices...)...)
}

func (b *builder) compare(x, y value, direction string) value {
	return b.op("compare", "comparison_direction = #stablehlo<comparison_direction "+direction+">", boolean, x.dims, x, y)
}

// binary is an operation of StableHLO on equal types.
func (b *builder) binary(name string, x, y value) value { return b.op(name, "", x.elem, x.dims, x, y) }

func (b *builder) selects(pred, x, y value) value {
	return b.op("select", "", x.elem, x.dims, pred, x, y)
}

// iota is 0, 1, ... n-1.
func (b *builder) iota(e elem, n int) value {
	return b.op("iota", "iota_dimension = 0 : i64", e, []int{n})
}

// i32 is a scalar.
func (b *builder) i32(n int) value { return b.splat("i32", float64(n)) }

// indexType is the type of indices of an array of size elements. The stack of a large model's layers has
// more than 32 bits can count.
func indexType(size int) elem {
	if size > math.MaxInt32 {
		return "i64"
	}
	return "i32"
}

// offset is index n of an array of size elements, a scalar.
func (b *builder) offset(size, n int) value { return b.splat(indexType(size), float64(n)) }

// stride is index i*n, for an i32 scalar i.
func (b *builder) stride(size int, i value, n int) value {
	return b.binary("multiply", b.convert(i, indexType(size)), b.offset(size, n))
}

// reduce folds dimension dim by a binary operation, from start.
func (b *builder) reduce(v value, dim int, name string, start float64) value {
	dims := slices.Delete(slices.Clone(v.dims), dim, dim+1)
	return b.region("reduce", fmt.Sprintf("dimensions = array<i64: %d>", dim), b.combiner(name, v.elem), v.elem, dims, v, b.splat(v.elem, start))
}

// combiner is a region of two scalars.
func (b *builder) combiner(name string, e elem) string {
	t := typ(e, nil)
	return fmt.Sprintf(" ({\n%[1]s^bb0(%%x: %[2]s, %%y: %[2]s):\n%[1]s  %%z = \"stablehlo.%[3]s\"(%%x, %%y) : (%[2]s, %[2]s) -> %[2]s\n%[1]s  \"stablehlo.return\"(%%z) : (%[2]s) -> ()\n%[1]s})", b.indent, t, name)
}

// dot contracts dimension xc of x with yc of y; the first batch dimensions of both are a batch.
func (b *builder) dot(x, y value, xc, yc, batch int, e elem) value {
	dims := slices.Clone(x.dims[:batch])
	for i := batch; i < len(x.dims); i++ {
		if i != xc {
			dims = append(dims, x.dims[i])
		}
	}
	for i := batch; i < len(y.dims); i++ {
		if i != yc {
			dims = append(dims, y.dims[i])
		}
	}
	both := ""
	if batch > 0 {
		n := make([]int, batch)
		for i := range n {
			n[i] = i
		}
		both = fmt.Sprintf("lhs_batching_dimensions = [%[1]s], rhs_batching_dimensions = [%[1]s], ", commas(n))
	}
	attrs := fmt.Sprintf("dot_dimension_numbers = #stablehlo.dot<%slhs_contracting_dimensions = [%d], rhs_contracting_dimensions = [%d]>", both, xc, yc)
	if x.elem == "f32" {
		attrs += ", precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"
	}
	return b.op("dot_general", attrs, e, dims, x, y)
}

// barrier is an optimization barrier.
func (b *builder) barrier(vs []value) []value {
	out := make([]value, len(vs))
	for i, v := range vs {
		out[i] = b.fresh(v.elem, v.dims)
	}
	b.line(out, "stablehlo.optimization_barrier", "", vs, "")
	return out
}

// loop writes a while loop of count iterations over carried values. body gets the iteration (an i32
// scalar) and the values, and returns the next ones.
func (b *builder) loop(count int, carried []value, body func(i value, in []value) []value) []value {
	first := append([]value{b.splat("i32", 0)}, carried...)
	args := func() []value {
		vs := make([]value, len(first))
		for i, v := range first {
			vs[i] = b.fresh(v.elem, v.dims)
		}
		return vs
	}
	results := args()
	text := func(f func(in []value) []value) string {
		in := args()
		params := make([]string, len(in))
		for i, v := range in {
			params[i] = v.id + ": " + v.typ()
		}
		consts, known, out, indent := b.consts, b.known, b.out, b.indent
		b.consts, b.known, b.out = map[string]value{}, map[string]float64{}, strings.Builder{}
		b.indent += "  "
		next := f(in)
		b.line(nil, "stablehlo.return", "", next, "")
		inner := b.out.String()
		b.consts, b.known, b.out, b.indent = consts, known, out, indent
		return fmt.Sprintf("{\n%s^bb0(%s):\n%s%s}", b.indent, strings.Join(params, ", "), inner, b.indent)
	}
	cond := text(func(in []value) []value { return []value{b.compare(in[0], b.i32(count), "LT")} })
	step := text(func(in []value) []value {
		next := body(in[0], in[1:])
		return append([]value{b.binary("add", in[0], b.i32(1))}, next...)
	})
	b.line(results, "stablehlo.while", "", first, fmt.Sprintf(" (%s, %s)", cond, step))
	return results[1:]
}
