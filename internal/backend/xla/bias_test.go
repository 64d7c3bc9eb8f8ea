package xla_test

import (
	"regexp"
	"testing"

	"trireme/internal/backend/xla"
	"trireme/tensor"
)

// The sum for a bias reads the result of a barrier, and not what makes its operand.
func TestBiasGradApart(t *testing.T) {
	for _, accumulate := range []bool{false, true} {
		text := xla.Text(t, "cuda", func(b tensor.Backend) {
			in := inputs(b, tensor.BF16, []int{64, 32}, []int{64, 32})
			dy, db := b.New(tensor.Activations, tensor.BF16, 64, 32), inputs(b, tensor.F32, []int{32})[0]
			b.Binary(dy, in[0], in[1], tensor.Mul)
			b.BiasGrad(db, dy, accumulate)
			tensor.DownloadAsync(b, db)
			release(in[0], in[1], dy, db)
		})
		barrier := regexp.MustCompile(`(%\d+)(?::\d+)? = "stablehlo.optimization_barrier"`).FindStringSubmatch(text)
		if barrier == nil {
			t.Fatalf("no barrier in\n%s", text)
		}
		if !regexp.MustCompile(`"stablehlo.convert"\(` + barrier[1] + `(#0)?\)`).MatchString(text) {
			t.Errorf("accumulate %t: the sum does not read the barrier's result in\n%s", accumulate, text)
		}
	}
}
