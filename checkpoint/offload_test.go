package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// memFile is an offload backing store in memory; reads and writes return fail.
type memFile struct {
	b    []byte
	fail error
}

func (p *memFile) ReadAt(b []byte, off int64) (int, error)  { return copy(b, p.b[off:]), p.fail }
func (p *memFile) WriteAt(b []byte, off int64) (int, error) { return copy(p.b[off:], b), p.fail }

// offload moves an item's data into a file, in the middle of a longer tensor.
func offload(it Item, fail error) (Item, *memFile) {
	const before, after = 3, 2
	size, n := it.DType.Size(), it.Box.Elems()
	p := &memFile{b: make([]byte, (n+before+after)*size), fail: fail}
	copy(p.b[before*size:], tensor.HostBytes(it.Data))
	whole := tensor.Of(tensor.NewOffloaded(&tensor.Meter{}, p, len(p.b)), it.DType, 0, n+before+after)
	it.Data = whole.Flat(before, before+n)
	return it, p
}

// TestOffloadedState: offloaded tensors are saved and loaded like those in memory, in any combination.
func TestOffloadedState(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		tr := newTruth(rapid.Uint64().Draw(rt, "seed"))
		rng := rand.New(rand.NewPCG(tr.seed, 1))
		cfg := Config{StateDictType: rapid.SampledFrom([]string{Sharded, Full}).Draw(rt, "type")}
		some := func(items []Item) (out []Item) {
			for _, it := range items {
				if rng.IntN(2) == 0 {
					it, _ = offload(it, nil)
				}
				out = append(out, it)
			}
			return out
		}
		if _, err := testStore(t, SingleProcess{}, nil, dir, cfg).Save(t.Context(), tr.meta(3), some(tr.whole(false))); err != nil {
			rt.Fatal(err)
		}
		got := some(tr.split(1, rng, true, true)[0])
		if _, err := testStore(t, SingleProcess{}, nil, dir, cfg).Resume(t.Context(), "auto", got, LoadOptions{}); err != nil {
			rt.Fatal(err)
		}
		for _, it := range got {
			b := make([]byte, it.Data.Bytes())
			if it.Data.Buffer().Backing == nil {
				copy(b, tensor.HostBytes(it.Data))
			} else if err := tensor.Fetch(b, it.Data); err != nil {
				rt.Fatal(err)
			}
			for i, x := range tr.tensors {
				if x.Kind == it.Kind && x.Name == it.Name && string(b) != string(tr.bytes(i, it.Box)) {
					rt.Fatalf("%s/%s %v differs", it.Kind, it.Name, it.Box)
				}
			}
		}
	})
}

// TestOffloadErrors: errors of a file name the tensor.
func TestOffloadErrors(t *testing.T) {
	broken := errors.New("the disk is broken")
	tr := newTruth(1)
	dir := t.TempDir()
	if _, err := saveAlone(t, nil, dir, Config{}, tr, 1); err != nil {
		t.Fatal(err)
	}
	items := tr.whole(false)
	items[0], _ = offload(items[0], broken)
	_, saving := testStore(t, SingleProcess{}, nil, dir, Config{}).Save(t.Context(), tr.meta(2), items)
	_, loading := testStore(t, SingleProcess{}, nil, dir, Config{}).Resume(t.Context(), "auto", items, LoadOptions{})
	exporting := Export(context.Background(), filepath.Join(dir, "model"), []safetensors.Entry{{Name: items[0].Name, DType: items[0].DType, Shape: items[0].Shape}},
		[]tensor.Shard{items[0].Shard}, SingleProcess{}, ExportOptions{})
	for what, err := range map[string]error{"saving": saving, "loading": loading, "exporting": exporting} {
		if !errors.Is(err, broken) || !strings.Contains(fmt.Sprint(err), items[0].Name) {
			t.Errorf("%s ends with %v", what, err)
		}
	}
}
