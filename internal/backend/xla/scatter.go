package xla

import (
	"fmt"

	"trireme/tensor"
)

// ScatterAdd skips padding by an index out of range.
func (e *emitter) ScatterAdd(dst, x, ids *tensor.Tensor, padding int, accumulate bool) {
	n, v, d := ids.Elems(), dst.Rows(), dst.Width()
	at, rows := e.flat(e.load(ids)), e.convert(e.asMatrix(x), "f32")
	if padding != tensor.NoPadding {
		at = e.selects(e.compare(at, e.splat(at.elem, float64(padding), n), "EQ"), e.splat(at.elem, float64(v), n), at)
	}
	unique := e.target.deterministic && n > 1
	if unique {
		at, rows = e.sumEqual(at, rows, v)
	}
	sum := e.region("scatter", fmt.Sprintf("indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = %t", unique),
		e.combiner("add", "f32"), "f32", []int{v, d}, e.splat("f32", 0, v, d), e.reshape(at, n, 1), rows)
	if accumulate {
		sum = e.binary("add", e.convert(e.asMatrix(dst), "f32"), sum)
	}
	e.store(dst, sum)
}

// sumEqual sums rows of equal ids: it returns unique indices, those of no row from v on, and the rows in
// their order. Sums have the same order in every run. For such a scatter the compiler sorts single elements,
// which took 13.5 ms on an H200 for 8192 rows of 2048 elements.
//
// Sorted by id, row i gets row i-k if both have one id, for k = 1, 2, 4, ...: the last row of an id is then
// the sum of all (Hillis and Steele, Data Parallel Algorithms, 1986).
func (e *emitter) sumEqual(ids, rows value, v int) (at, sums value) {
	n, d := rows.dims[0], rows.dims[1]
	order := e.iota(ids.elem, n)
	ids, order = e.sort(ids, order)
	sums = e.rows(rows, order)
	for k := 1; k < n; k *= 2 {
		same := e.compare(e.slice(ids, []int{k}, []int{n}), e.slice(ids, []int{0}, []int{n - k}), "EQ")
		before := e.slice(sums, []int{0, 0}, []int{n - k, d})
		before = e.selects(e.broadcast(same, []int{0}, n-k, d), before, e.splat("f32", 0, n-k, d))
		sums = e.binary("add", sums, e.pad(before, []int{k, 0}, []int{0, 0}))
	}
	next := e.concat(0, e.slice(ids, []int{1}, []int{n}), e.splat(ids.elem, -1, 1))
	none := e.binary("add", e.iota(ids.elem, n), e.splat(ids.elem, float64(v+1), n)) // v is padding's
	return e.selects(e.compare(ids, next, "NE"), ids, none), sums
}

// sort sorts keys, and values with them. Values of equal keys keep their order.
func (e *emitter) sort(keys, values value) (value, value) {
	out := []value{e.fresh(keys.elem, keys.dims), e.fresh(values.elem, values.dims)}
	k, v := typ(keys.elem, nil), typ(values.elem, nil)
	less := fmt.Sprintf(" ({\n%[1]s^bb0(%%x: %[2]s, %%y: %[2]s, %%v: %[3]s, %%w: %[3]s):\n%[1]s  %%z = \"stablehlo.compare\"(%%x, %%y) {comparison_direction = #stablehlo<comparison_direction LT>} : (%[2]s, %[2]s) -> tensor<i1>\n%[1]s  \"stablehlo.return\"(%%z) : (tensor<i1>) -> ()\n%[1]s})", e.indent, k, v)
	e.line(out, "stablehlo.sort", "dimension = 0 : i64, is_stable = true", []value{keys, values}, less)
	return out[0], out[1]
}
