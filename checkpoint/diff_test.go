package checkpoint

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"trireme/tensor"
)

// Checkpoints of one state are equal whatever the ranks, the boxes and the layout; a changed byte is found.
func TestDiffAndVerify(t *testing.T) {
	dir, tr := t.TempDir(), newTruth(3)
	rng := rand.New(rand.NewPCG(1, 2))
	var open []*Checkpoint
	for i, ranks := range []int{1, 3, 2} {
		to := filepath.Join(dir, string(rune('a'+i)))
		have := tr.split(ranks, rng, false, false)
		for rank, err := range newWorld(ranks).run(func(m member) error {
			_, err := testStore(t, m, nil, to, Config{StateDictType: []string{Sharded, Sharded, Full}[i]}).Save(t.Context(), tr.meta(5), have[m.rank])
			return err
		}) {
			if err != nil {
				t.Fatalf("rank %d: %v", rank, err)
			}
		}
		c, err := Open(filepath.Join(to, "checkpoints", "step-5"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	for _, b := range open[1:] {
		found, err := Diff(t.Context(), open[0], b, "")
		if err != nil || len(found) != len(tr.tensors) {
			t.Fatal(len(found), err)
		}
		for _, d := range found {
			if !d.Same() || d.MaxAbs != 0 || d.Relative != 0 {
				t.Errorf("%+v: want equal tensors", d)
			}
		}
	}
	read, total := int64(0), int64(0)
	for _, x := range open[1].Tensors() {
		total += int64(x.Shape.Elems() * x.DType.Size())
	}
	if found, err := open[1].Verify(t.Context(), func(done int64) { read = done }); err != nil || len(found) > 0 || read != total {
		t.Fatalf("%v, %v, %d of %d bytes", found, err, read, total)
	}
	path := filepath.Join(dir, "b", "checkpoints", "step-5", open[1].Files()[0].Name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	found, err := open[1].Verify(t.Context(), nil)
	if err != nil || len(found) != 1 || found[0].File != filepath.Base(path) || !errors.Is(found[0].Err, ErrCorrupt) {
		t.Fatalf("%+v, %v", found, err)
	}
	if _, err := Diff(t.Context(), open[0], open[1], ""); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("%v: want %v", err, ErrCorrupt)
	}
}

func TestDiffOfValues(t *testing.T) {
	save := func(name string, values map[string][]float32) *Checkpoint {
		var items []Item
		for n, v := range values {
			b := make([]byte, 4*len(v))
			for i, x := range v {
				binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
			}
			s := tensor.Shape{len(v)}
			items = append(items, Item{Param, tensor.Shard{Name: n, DType: tensor.F32, Shape: s, Box: tensor.FullBox(s), Data: tensor.Of(tensor.NewBuffer(b, len(b), tensor.Params, nil), tensor.F32, 0, len(v))}})
		}
		slices.SortFunc(items, func(a, b Item) int { return len(a.Name) - len(b.Name) })
		dir := filepath.Join(t.TempDir(), name)
		saved, err := testStore(t, SingleProcess{}, nil, dir, Config{}).Save(t.Context(), Meta{Step: 1}, items)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(saved.Path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	a := save("a", map[string][]float32{"x": {3, 4, nan, inf, 1}, "only-a": {1}, "shape": {1, 2}, "zeros": {0, 0, 0}})
	b := save("b", map[string][]float32{"x": {3, 5, nan, 7, 1}, "other-b": {1}, "shape": {1}, "zeros": {0, 0, 2}})
	found, err := Diff(t.Context(), a, b, Param)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Difference{}
	for _, d := range found {
		by[d.Name] = d
	}
	if x := by["x"]; x.Elems != 5 || x.Equal != 3 || x.NotFinite != 1 || x.MaxAbs != 1 || x.Relative != 1/math.Sqrt(26) {
		t.Errorf("x: %+v", x)
	}
	if x := by["zeros"]; x.Equal != 2 || x.MaxAbs != 2 || !math.IsInf(x.Relative, 1) {
		t.Errorf("zeros: %+v", x)
	}
	if x := by["shape"]; x.Compared || x.A == nil || x.B == nil || x.Same() {
		t.Errorf("shape: %+v", x)
	}
	if by["only-a"].B != nil || by["other-b"].A != nil || len(found) != 5 {
		t.Errorf("%+v", found)
	}
	if none, err := Diff(t.Context(), a, b, "moment"); err != nil || len(none) > 0 {
		t.Errorf("%v, %v: want none of another kind", none, err)
	}
}
