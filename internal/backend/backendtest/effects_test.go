package backendtest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"trireme/internal/backend/naive"
	"trireme/internal/backend/record"
	"trireme/tensor"
	"trireme/tensor/compose"
)

// TestEffects checks signatures: inputs stay unchanged, and results do not depend on the old
// contents of an Out or of an Acc that does not accumulate.
func TestEffects(t *testing.T) {
	if testing.Short() {
		t.Skip("short: one goroutine")
	}
	tried := effects(t, func(b *record.Backend) tensor.Backend { return b })
	tried["Normal"] = true // has properties, but no cases
	for m := range reflect.TypeFor[tensor.Memory]().Methods() {
		tried[m.Name] = true
	}
	for m := range reflect.TypeFor[tensor.Backend]().Methods() {
		if !tried[m.Name] {
			t.Errorf("%s has no case in this package", m.Name)
		}
	}
}

// TestFormulasAreRecorded checks that formulas, as programs of core operations, have the same
// effects.
func TestFormulasAreRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("short: one goroutine")
	}
	effects(t, func(b *record.Backend) tensor.Backend { return compose.NewBackend(b) })
}

// effects runs all cases, and returns the operations that ran.
func effects(t *testing.T, through func(*record.Backend) tensor.Backend) (tried map[string]bool) {
	tried = map[string]bool{}
	for _, c := range cases() {
		if c.large || slices.ContainsFunc(c.args, func(a arg) bool { return tensor.Shape(a.shape).Elems() == 0 }) {
			continue
		}
		b := record.New(naive.New())
		var xs []*tensor.Tensor
		var values [][]byte
		rng := rand.New(rand.NewPCG(1, 2))
		fill := func(x *tensor.Tensor, a arg) []byte {
			v := make([]float64, x.Elems())
			for i := range v {
				v[i] = a.value(rng, i)
			}
			return encode(x.DType(), v)
		}
		for _, a := range c.args {
			if a.float {
				a.dt = tensor.F32
			}
			x := b.New(tensor.Workspace, a.dt, a.shape...)
			xs, values = append(xs, x), append(values, fill(x, a))
		}
		results := make([]func() []byte, len(xs))
		rec, err := b.Record(true, func() error {
			c.run(through(b), xs)
			for i, x := range xs {
				results[i] = tensor.DownloadAsync(b, x)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, op := range rec.Ops {
			tried[op.Name] = true
		}
		kinds := map[*tensor.Tensor]record.Kind{}
		for i, x := range rec.Bound {
			for _, y := range xs {
				if y.Buffer() == x {
					kinds[y] = rec.Buffers[i].Kind
				}
			}
		}
		run := func() (out [][]byte) {
			for i, x := range xs {
				b.Upload(x, values[i])
			}
			if err := b.Replay(context.Background(), rec.Program, rec); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for _, result := range results {
				out = append(out, result())
			}
			return out
		}
		first := run()
		for i, x := range xs {
			if kinds[x] == record.Constant && !bytes.Equal(first[i], values[i]) {
				t.Errorf("%s: operand %d is written, but the signature says it is an input", c.name, i)
			}
			if kinds[x] == record.Scratch {
				values[i] = fill(x, c.args[i])
			}
		}
		for i, got := range run() {
			if !bytes.Equal(got, first[i]) && !c.args[i].loose {
				t.Errorf("%s: operand %d depends on its old contents, but the signature says Out", c.name, i)
			}
		}
	}
	return tried
}
