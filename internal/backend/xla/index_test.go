package xla

import (
	"math"
	"strings"
	"testing"
)

// Indices of arrays with more elements than an i32 can count are i64.
func TestLargeIndices(t *testing.T) {
	for size, want := range map[int]elem{1: "i32", math.MaxInt32: "i32", math.MaxInt32 + 1: "i64"} {
		b := newBuilder()
		i := b.op("constant", "value = dense<3> : tensor<i32>", "i32", nil)
		at := b.binary("add", b.offset(size, size-1), b.stride(size, i, 5))
		if at.elem != want {
			t.Errorf("%d elements have indices of type %s", size, at.elem)
		}
		if converted := strings.Contains(b.out.String(), "stablehlo.convert"); converted != (want == "i64") {
			t.Errorf("%d elements:\n%s", size, b.out.String())
		}
	}
}
