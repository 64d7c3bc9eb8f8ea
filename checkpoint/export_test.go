package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// weightsTruth returns a model's parameters and the entries to write.
func weightsTruth(as tensor.DType) (truth, []safetensors.Entry) {
	tr := truth{7, nil}
	var entries []safetensors.Entry
	for i, shape := range []tensor.Shape{{40, 8}, {8}, {8, 8}, {9, 31}, {1}} {
		name := fmt.Sprintf("model.layers.%d.weight", 9-i) // not declared in sorted order
		tr.tensors = append(tr.tensors, Tensor{Param, name, tensor.F32, shape})
		entries = append(entries, safetensors.Entry{Name: name, DType: as, Shape: shape})
	}
	return tr, entries
}

func shardsOf(items []Item) []tensor.Shard {
	ss := make([]tensor.Shard, len(items))
	for i, it := range items {
		ss[i] = it.Shard
	}
	return ss
}

func exportWith(ranks int, fs fileSystem, dir string, tr truth, entries []safetensors.Entry, seed uint64, o ExportOptions) []error {
	items := tr.split(ranks, rand.New(rand.NewPCG(seed, 2)), seed%2 == 0, false)
	return newWorld(ranks).run(func(m member) error {
		return export(context.Background(), fs, dir, entries, shardsOf(items[m.rank]), m, o)
	})
}

func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

func TestExportIsTheSameFromAnyWorld(t *testing.T) {
	for _, as := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16} {
		for _, most := range []int64{0, 700} {
			tr, entries := weightsTruth(as)
			var first map[string]string
			for ranks := 1; ranks <= 4; ranks++ {
				dir := filepath.Join(t.TempDir(), "final_model")
				for _, err := range exportWith(ranks, disk{}, dir, tr, entries, uint64(ranks), ExportOptions{MaxShardSize: most}) {
					if err != nil {
						t.Fatal(err)
					}
				}
				files := readDir(t, dir)
				if first == nil {
					first = files
					checkExport(t, dir, tr, entries)
				}
				if !slices.Equal(sortedKeys(files), sortedKeys(first)) {
					t.Fatalf("%d ranks wrote %v, one %v", ranks, sortedKeys(files), sortedKeys(first))
				}
				for name := range first {
					if files[name] != first[name] {
						t.Fatalf("%s of %d ranks differs from that of one", name, ranks)
					}
				}
			}
			if (len(first) > 1) != (most > 0) {
				t.Fatalf("max %d bytes per file: got %v", most, sortedKeys(first))
			}
		}
	}
}

func sortedKeys(m map[string]string) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

func checkExport(t *testing.T, dir string, tr truth, entries []safetensors.Entry) {
	t.Helper()
	m, err := safetensors.OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, e := range entries {
		n := e.Shape.Elems()
		got, want := make([]byte, e.Bytes()), make([]byte, e.Bytes())
		if err := m.ReadRange(e.Name, 0, n, got); err != nil {
			t.Fatal(err)
		}
		safetensors.Convert(want, e.DType, tr.bytes(i, tr.all(i)), tensor.F32)
		if !bytes.Equal(got, want) {
			t.Fatalf("%v differs", e)
		}
	}
	if path := filepath.Join(dir, safetensors.ModelFile); len(readDir(t, dir)) == 1 {
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Metadata()["format"] != "pt" || f.Tensors()[0].Name != entries[0].Name {
			t.Fatalf("metadata %v, first tensor %v", f.Metadata(), f.Tensors()[0])
		}
	}
}

func TestExportReplacesOtherForms(t *testing.T) {
	tr, entries := weightsTruth(tensor.F32)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{700, 0, 2000, 700} {
		if err := exportWith(1, disk{}, dir, tr, entries, 1, ExportOptions{MaxShardSize: most})[0]; err != nil {
			t.Fatal(err)
		}
		checkExport(t, dir, tr, entries)
		files := sortedKeys(readDir(t, dir))
		if files[0] != "config.json" || slices.Contains(files, safetensors.ModelFile) == slices.Contains(files, safetensors.IndexFile) {
			t.Fatalf("max %d: %v", most, files)
		}
	}
}

func TestExportRefuses(t *testing.T) {
	tr, entries := weightsTruth(tensor.F32)
	for _, c := range []struct {
		name  string
		spoil func(es []safetensors.Entry) []safetensors.Entry
		want  string
	}{
		{"not declared", func(es []safetensors.Entry) []safetensors.Entry { return es[1:] }, "model.layers.9.weight is not declared"},
		{"not held", func(es []safetensors.Entry) []safetensors.Entry {
			return append(es, safetensors.Entry{Name: "lm_head.weight", Shape: tensor.Shape{1}})
		}, "no rank holds lm_head.weight"},
		{"shape", func(es []safetensors.Entry) []safetensors.Entry { es[0].Shape = tensor.Shape{8, 40}; return es }, "ranks hold float32[40 8]"},
		{"type", func(es []safetensors.Entry) []safetensors.Entry { es[0].DType = tensor.I64; return es }, "ranks hold float32[40 8]"},
		{"twice", func(es []safetensors.Entry) []safetensors.Entry { return append(es, es[0]) }, "declared twice"},
		{"nothing", func(es []safetensors.Entry) []safetensors.Entry { return nil }, "no tensors"},
	} {
		dir := t.TempDir()
		for _, err := range exportWith(2, disk{}, dir, tr, c.spoil(slices.Clone(entries)), 3, ExportOptions{}) {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the error is %v, without %q", c.name, err, c.want)
			}
		}
		if files := readDir(t, dir); len(files) > 0 {
			t.Errorf("%s: %v was left", c.name, sortedKeys(files))
		}
	}
}

// TestExportFails fails every call and cuts power at every call: the old model or the new one is
// readable.
func TestExportFails(t *testing.T) {
	old, entries := weightsTruth(tensor.F32)
	next := truth{8, old.tensors}
	start := newFaultFS()
	if err := exportWith(1, start, "out", old, entries, 1, ExportOptions{})[0]; err != nil {
		t.Fatal(err)
	}
	start = start.afterPowerLoss(nil, keepAll)
	seed := func(fs *faultFS) uint64 {
		t.Helper()
		b := fs.find("out/model.safetensors").data
		f, err := safetensors.NewFile("model", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, entries[3].Bytes())
		if err := f.ReadRange(entries[3].Name, 0, entries[3].Shape.Elems(), got); err != nil {
			t.Fatal(err)
		}
		for _, tr := range []truth{old, next} {
			if bytes.Equal(got, tr.bytes(3, tr.all(3))) {
				return tr.seed
			}
		}
		t.Fatal("the model is neither the old nor the new one")
		return 0
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for n, reached := 1, true; reached; n++ {
		fs := start.afterPowerLoss(nil, keepAll)
		fs.failAt, fs.failure = n, errInjected
		errs := exportWith(2, fs, "out", next, entries, 2, ExportOptions{})
		reached = fs.calls >= n
		if s := seed(fs); errs[0] == nil && s != next.seed || fs.open != 0 || strings.Contains(fs.tree(), tempPrefix) {
			t.Fatalf("call %d fails (%v): model %d, %d files open, on disk:\n%s", n, errs[0], s, fs.open, fs.tree())
		}
		if (errs[0] == nil) != (errs[1] == nil) || errs[0] != nil && (!strings.Contains(errs[1].Error(), errInjected.Error()) || !strings.HasPrefix(errs[0].Error(), "checkpoint: ")) {
			t.Fatalf("call %d fails: errors are %v", n, errs)
		}
		fs = start.afterPowerLoss(nil, keepAll)
		fs.powerAt = n
		errs = exportWith(2, fs, "out", next, entries, 2, ExportOptions{})
		if reached && !errors.Is(errors.Join(errs...), errPower) {
			t.Fatalf("call %d: power was not cut", n)
		}
		for v := range 6 {
			seed(fs.afterPowerLoss(rng, min(v, loseSome)))
		}
	}
}

// TestExportIsReadable cuts power at every call of consecutive exports: a reader finds all tensors
// of one export.
func TestExportIsReadable(t *testing.T) {
	old, entries := weightsTruth(tensor.F32)
	for _, most := range [][2]int64{{700, 700}, {700, 2000}, {700, 0}, {0, 700}, {0, 0}} {
		start := newFaultFS()
		for seed := range uint64(2) { // the second replaces shards of the same names
			if err := exportWith(1, start, "out", truth{5 + 2*seed, old.tensors}, entries, 1, ExportOptions{MaxShardSize: most[0]})[0]; err != nil {
				t.Fatal(err)
			}
		}
		start = start.afterPowerLoss(nil, keepAll)
		next := truth{8, old.tensors}
		rng := rand.New(rand.NewPCG(3, 3))
		reached, seen := true, map[uint64]bool{}
		for n := 1; reached; n++ {
			fs := start.afterPowerLoss(nil, keepAll)
			fs.powerAt = n
			err := exportWith(1, fs, "out", next, entries, 2, ExportOptions{MaxShardSize: most[1]})[0]
			reached = errors.Is(err, errPower)
			for how := range 4 {
				dir := t.TempDir()
				for name, f := range fs.afterPowerLoss(rng, min(how, loseSome)).find("out").entries {
					if err := os.WriteFile(filepath.Join(dir, name), f.data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				seen[whichExport(t, dir, entries, old, next)] = true
			}
		}
		if !seen[old.seed] || !seen[next.seed] {
			t.Errorf("files of %d bytes: readers found the exports %v", most, seen)
		}
	}
}

// whichExport returns the seed of the export that a directory holds.
func whichExport(t *testing.T, dir string, entries []safetensors.Entry, exports ...truth) uint64 {
	t.Helper()
	m, err := safetensors.OpenModel(dir)
	if err != nil {
		t.Fatalf("%v: %v", sortedKeys(readDir(t, dir)), err)
	}
	defer m.Close()
	for _, tr := range exports {
		same := len(m.Tensors()) == len(entries)
		for i, e := range entries {
			got := make([]byte, e.Bytes())
			if err := m.ReadRange(e.Name, 0, e.Shape.Elems(), got); err != nil {
				t.Fatal(err)
			}
			same = same && bytes.Equal(got, tr.bytes(i, tr.all(i)))
		}
		if same {
			return tr.seed
		}
	}
	t.Fatalf("%v: a mixture of exports", sortedKeys(readDir(t, dir)))
	return 0
}

// Values beyond float16 are not written as infinity.
func TestExportOverflow(t *testing.T) {
	for want, v := range map[string]float32{"": 65519, "values beyond 65504": -65520, "none": float32(math.Inf(1))} {
		b := make([]byte, 4)
		binary.LittleEndian.PutUint32(b, math.Float32bits(v))
		half := make([]byte, 2)
		safetensors.Convert(half, tensor.F16, b, tensor.F32)
		if got := Overflows(half, b, tensor.F32); got != strings.Contains(want, "beyond") {
			t.Errorf("%v overflows: %t", v, got)
		}
	}
}
