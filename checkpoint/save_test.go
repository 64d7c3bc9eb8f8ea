package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/checkpoint/safetensors"
	"trireme/internal/rundir"
	"trireme/tensor"
)

// TestAnyWorldToAnyOther saves and loads with random numbers of ranks and random boxes.
func TestAnyWorldToAnyOther(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		from, to := rapid.IntRange(1, 5).Draw(rt, "from"), rapid.IntRange(1, 5).Draw(rt, "to")
		cfg := Config{StateDictType: rapid.SampledFrom([]string{"", Sharded, Full}).Draw(rt, "type")}
		tr := newTruth(rng.Uint64())
		have := tr.split(from, rng, rapid.Bool().Draw(rt, "replicas"), false)
		for rank, err := range newWorld(from).run(func(m member) error {
			saved, err := testStore(t, m, nil, dir, cfg).Save(t.Context(), tr.meta(12), have[m.rank])
			if err == nil && (saved.Path != filepath.Join(dir, "checkpoints", "step-12") || saved.Bytes == 0 || len(saved.Notices) > 0) {
				err = fmt.Errorf("saved %+v", saved)
			}
			return err
		}) {
			if err != nil {
				rt.Fatalf("rank %d saves: %v", rank, err)
			}
		}
		want := tr.split(to, rng, rapid.Bool().Draw(rt, "overlap"), true)
		for rank, err := range newWorld(to).run(func(m member) error {
			r, err := testStore(t, m, nil, dir, cfg).Resume(t.Context(), "auto", want[m.rank], LoadOptions{})
			if err != nil {
				return err
			}
			if r.Meta.Step != 12 || r.Meta.WorldSize != from || r.Meta.Epoch != 3 || string(r.Meta.State) != string(tr.meta(12).State) || r.Meta.Config != "a: 1\n" {
				return fmt.Errorf("resumed %+v", r)
			}
			return tr.same(want[m.rank])
		}) {
			if err != nil {
				rt.Fatalf("rank %d loads: %v", rank, err)
			}
		}
		checkFiles(rt, filepath.Join(dir, "checkpoints", "step-12"), tr, cfg)
	})
}

// checkFiles opens the data files as safetensors.
func checkFiles(rt *rapid.T, dir string, tr truth, cfg Config) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	for _, path := range files {
		f, err := safetensors.Open(path)
		if err != nil {
			rt.Fatal(err)
		}
		defer f.Close()
		if cfg.StateDictType != Full {
			continue
		}
		for i, x := range tr.tensors {
			b := make([]byte, x.Shape.Elems()*x.DType.Size())
			if err := f.ReadRange(key(x.Kind, x.Name), 0, x.Shape.Elems(), b); err != nil {
				rt.Fatal(err)
			}
			if !bytes.Equal(b, tr.bytes(i, tr.all(i))) {
				rt.Fatalf("%s differs in %s", x.Name, path)
			}
		}
	}
	if len(files) == 0 {
		rt.Fatal("no data files")
	}
}

// saveAlone saves with one rank.
func saveAlone(t testing.TB, fs fileSystem, dir string, cfg Config, tr truth, step int) (SaveResult, error) {
	t.Helper()
	return testStore(t, SingleProcess{}, fs, dir, cfg).Save(context.Background(), tr.meta(step), tr.whole(false))
}

func (tr truth) whole(empty bool) []Item {
	var items []Item
	for i := range tr.tensors {
		items = append(items, tr.item(i, tr.all(i), empty))
	}
	return items
}

func TestReplicasAreWrittenOnce(t *testing.T) {
	for _, ranks := range []int{2, 3, 4} {
		replicasAreWrittenOnce(t, ranks)
	}
}

func replicasAreWrittenOnce(t *testing.T, ranks int) {
	const elems = 40 << 20 / 4
	h := held{Param, "w", tensor.F32, tensor.Shape{elems}, tensor.FullBox(tensor.Shape{elems})}
	small := held{Param, "b", tensor.F32, tensor.Shape{8}, tensor.FullBox(tensor.Shape{8})}
	world := make([][]held, ranks)
	for i := range world {
		world[i] = []held{h, small}
	}
	ts, err := plan(world, false)
	if err != nil {
		t.Fatal(err)
	}
	load := make([]int, ranks)
	for _, x := range ts {
		at := 0
		for _, p := range x.parts {
			if p.box.Offsets[0] != at {
				t.Fatalf("parts are %v", x.parts)
			}
			at += p.box.Elems()
			load[p.rank] += p.box.Elems() * 4
		}
		if at != x.Shape.Elems() {
			t.Fatalf("%d of %v elements are written", at, x.Shape)
		}
	}
	if slices.Max(load)-slices.Min(load) > partBytes {
		t.Fatalf("bytes a rank: %v", load)
	}
}

func TestSaveRefuses(t *testing.T) {
	tr := newTruth(1)
	for _, c := range []struct {
		name  string
		spoil func(items []Item) []Item
		want  string
	}{
		{"gap", func(is []Item) []Item { return is[1:] }, ""}, // one tensor less is a valid state
		{"part missing", func(is []Item) []Item { is[0] = tr.item(0, rows(tr.all(0), 0, 1, 7), false); return is }, "no rank holds [0:1,0:5] of layers.0.weight [7 5]"},
		{"end missing", func(is []Item) []Item { is[0] = tr.item(0, rows(tr.all(0), 1, 0, 4), false); return is }, "no rank holds [0:7,4:5]"},
		{"outside", func(is []Item) []Item { is[0].Box.Offsets[1] = 1; return is }, "layers.0.weight: box [0 1] + [7 5] is outside [7 5]"},
		{"type", func(is []Item) []Item { is[0].DType = tensor.BF16; return is }, "does not match its tensor"},
		{"no data", func(is []Item) []Item { is[0].Data = nil; return is }, "does not match its tensor none"},
		{"no name", func(is []Item) []Item { is[0].Name = ""; return is }, "without a name"},
		{"two shapes", func(is []Item) []Item {
			x := is[0]
			x.Shape, x.Box = tensor.Shape{5, 7}, tensor.FullBox(tensor.Shape{5, 7})
			return append(is, x)
		}, "disagree on layers.0.weight"},
		{"two types", func(is []Item) []Item {
			x := is[0]
			x.DType = tensor.BF16
			x.Data = tensor.Of(tensor.NewBuffer(make([]byte, 70), 70, tensor.Params, nil), tensor.BF16, 0, 35)
			return append(is, x)
		}, "disagree on layers.0.weight"},
	} {
		dir := t.TempDir()
		_, err := testStore(t, SingleProcess{}, nil, dir, Config{}).Save(t.Context(), tr.meta(1), c.spoil(tr.whole(false)))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v, without %q", c.name, err, c.want)
		case c.want != "":
			if names, _ := os.ReadDir(filepath.Join(dir, "checkpoints")); len(names) > 0 {
				t.Errorf("%s: %v was left", c.name, names)
			}
		}
	}
	// Ranks that save different steps fail with the same error.
	errs := newWorld(3).run(func(m member) error {
		_, err := testStore(t, m, nil, t.TempDir(), Config{}).Save(t.Context(), tr.meta(m.rank), nil)
		return err
	})
	for _, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "rank 1 saves step 1") || strings.Split(err.Error(), " (on")[0] != strings.Split(errs[0].Error(), " (on")[0] {
			t.Errorf("errors are %v", errs)
		}
	}
}

// readEvery reads and checks every byte of a checkpoint.
func readEvery(t *testing.T, c *Checkpoint) {
	t.Helper()
	r := reader{c: c, chunk: make([]byte, c.m.ChunkBytes)}
	for _, x := range c.m.Tensors {
		for i := range x.Pieces {
			for k := range x.Pieces[i].CRC {
				if _, err := r.read(x, &x.Pieces[i], k, r.chunk); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	tr, dir := newTruth(1), t.TempDir()
	saved, err := saveAlone(t, nil, dir, Config{}, tr, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(saved.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	readEvery(t, c)
	item := func(spoil func(*Item)) []Item {
		x := tr.item(0, tr.all(0), true)
		spoil(&x)
		return []Item{x}
	}
	as := func(dt tensor.DType) func(*Item) {
		return func(x *Item) {
			x.DType = dt
			x.Data = tensor.Of(tensor.NewBuffer(make([]byte, 35*8), 35*8, tensor.Params, nil), dt, 0, 35)
		}
	}
	for _, r := range []struct {
		items []Item
		o     LoadOptions
		want  string
	}{
		{item(func(x *Item) { x.Name = "other" }), LoadOptions{}, "has no param of other"},
		{item(func(x *Item) { x.Kind = "exp_avg_sq" }), LoadOptions{}, "has no exp_avg_sq of layers.0.weight"},
		{item(func(x *Item) { x.Shape, x.Box = tensor.Shape{5, 7}, tensor.FullBox(tensor.Shape{5, 7}) }), LoadOptions{}, "has shape [7 5]"},
		{item(as(tensor.BF16)), LoadOptions{}, "has dtype float32"},
		{item(as(tensor.F64)), LoadOptions{Convert: true}, "has dtype float32"},
		{item(as(tensor.BF16)), LoadOptions{Convert: true}, ""},
	} {
		err := c.Load(t.Context(), r.items, r.o)
		if (err == nil) != (r.want == "") || err != nil && !strings.Contains(err.Error(), r.want) {
			t.Errorf("the error is %v, without %q", err, r.want)
		}
		if r.want == "" {
			want := make([]byte, 70)
			safetensors.Convert(want, tensor.BF16, tr.bytes(0, tr.all(0)), tensor.F32)
			if !bytes.Equal(tensor.HostBytes(r.items[0].Data), want) {
				t.Error("the converted tensor differs")
			}
		}
	}
	// Resume rejects tensors that no rank wants.
	_, err = testStore(t, SingleProcess{}, nil, dir, Config{}).Resume(t.Context(), "auto", tr.whole(true)[1:], LoadOptions{})
	if err == nil || !strings.Contains(err.Error(), "has 1 tensors that this run lacks, for example layers.0.weight") {
		t.Errorf("a state without its first parameter: %v", err)
	}
}

// A run without an ID takes that of the checkpoint it resumes from with auto. One that resumes by
// path is a new run.
func TestIdentity(t *testing.T) {
	first, other, tr := t.TempDir(), t.TempDir(), newTruth(1)
	if _, err := saveAlone(t, nil, first, Config{}, tr, 1); err != nil {
		t.Fatal(err)
	}
	of := func(dir, resume string) string {
		s := testStore(t, SingleProcess{}, nil, dir, Config{})
		s.run = ""
		if _, err := s.Resume(t.Context(), resume, tr.whole(true), LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Save(t.Context(), tr.meta(2), tr.whole(false)); err != nil {
			t.Fatal(err)
		}
		found, err := List(filepath.Join(dir, "checkpoints"))
		if err != nil || len(found) == 0 || found[0].Step != 2 || found[0].Run == "" {
			t.Fatal(found, err)
		}
		return found[0].Run
	}
	branch := of(other, filepath.Join(first, "checkpoints", "step-1"))
	found, err := List(filepath.Join(first, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	if run, same := found[0].Run, of(first, "auto"); same != run || branch == run {
		t.Errorf("run ID %s, resumed with auto %s, by path %s", run, same, branch)
	}
}

func TestRetention(t *testing.T) {
	dir := t.TempDir()
	in := func(name ...string) string { return filepath.Join(append([]string{dir, "checkpoints"}, name...)...) }
	for _, d := range []string{"step-1", "step-8", "notes", ".tmp-step-9-x", "step-02"} { // invalid, invalid and newer, not ours, stale, not ours
		if err := os.MkdirAll(in(d, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Keep: Keep{KeepLastN: 2}}
	for _, step := range []int{2, 4, 6, 6, 5, 3} {
		if saved, err := saveAlone(t, nil, dir, cfg, newTruth(uint64(step)), step); err != nil || len(saved.Notices) > 0 {
			t.Fatal(saved, err)
		}
	}
	var names []string
	entries, _ := os.ReadDir(in())
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"notes", "step-02", "step-1", "step-3", "step-6", "step-8"}; !slices.Equal(names, want) {
		t.Fatalf("left are %v, want %v", names, want)
	}
	if err := os.RemoveAll(in("step-8")); err != nil {
		t.Fatal(err)
	}
	path, notices, err := Latest(in(), "")
	if err != nil || path != in("step-6") || len(notices) > 0 {
		t.Fatal(path, notices, err)
	}
	// A checkpoint under another step's name is invalid.
	if err := os.Rename(in("step-6"), in("step-9")); err != nil {
		t.Fatal(err)
	}
	found, err := List(in())
	if err != nil || len(found) == 0 || found[0].Step != 9 || found[0].Err == nil || !strings.Contains(found[0].Err.Error(), "step 6") {
		t.Errorf("%+v, %v: want an error of step 9", found, err)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	for _, r := range []string{"none", ""} {
		if path, _, err := resolve(t.Context(), renaming{disk{}}, filepath.Join(dir, rundir.Checkpoints), r); path != "" || err != nil {
			t.Fatalf("%q of an empty directory: %q, %v", r, path, err)
		}
	}
	if _, _, err := resolve(t.Context(), renaming{disk{}}, filepath.Join(dir, rundir.Checkpoints), dir); err == nil || !strings.Contains(err.Error(), "is not a checkpoint and contains none") {
		t.Fatal(err)
	}
	if _, _, err := resolve(t.Context(), renaming{disk{}}, filepath.Join(dir, rundir.Checkpoints), filepath.Join(dir, "gone")); err == nil {
		t.Fatal("a directory that is not there was taken")
	}
	for _, step := range []int{9, 10} {
		if _, err := saveAlone(t, nil, dir, Config{}, newTruth(1), step); err != nil {
			t.Fatal(err)
		}
	}
	in := filepath.Join(dir, "checkpoints")
	for _, r := range []string{dir, in, filepath.Join(in, "step-10")} {
		if path, _, err := resolve(t.Context(), renaming{disk{}}, filepath.Join(dir, rundir.Checkpoints), r); path != filepath.Join(in, "step-10") || err != nil {
			t.Fatalf("%q: %q, %v", r, path, err)
		}
	}
	if err := os.Truncate(filepath.Join(in, "step-10", "rank-00000.safetensors"), 100); err != nil {
		t.Fatal(err)
	}
	path, notices, err := resolve(t.Context(), renaming{disk{}}, filepath.Join(dir, rundir.Checkpoints), in)
	if path != filepath.Join(in, "step-9") || err != nil || len(notices) != 1 || !strings.Contains(notices[0], "step-10 is incomplete (rank-00000.safetensors is short by") || !strings.HasSuffix(notices[0], ". using step-9") {
		t.Fatal(path, notices, err)
	}
	if err := os.Remove(filepath.Join(in, "step-9", "COMMIT")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := resolve(t.Context(), renaming{disk{}}, filepath.Join(dir, rundir.Checkpoints), in); err == nil || !strings.Contains(err.Error(), "none of the 2 checkpoints") {
		t.Fatal(err)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, c := range []Config{{SaveEveryNSteps: -1}, {Keep: Keep{KeepLastN: -1}}, {StateDictType: "local"}} {
		if c.Validate() == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	if err := (Config{SaveEveryNSteps: 5, Keep: Keep{KeepLastN: 1}, StateDictType: Full}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestOtherRuns: checkpoints of another run are not loaded, replaced or deleted, and a run does not
// start in their directory.
func TestOtherRuns(t *testing.T) {
	dir := t.TempDir()
	at := func(run string, keep int) *Store {
		s, err := NewStore(dir, run, Config{Keep: Keep{KeepLastN: keep}}, SingleProcess{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	save := func(s *Store, step int) error {
		_, err := s.Save(context.Background(), Meta{Step: step}, nil)
		return err
	}
	for _, step := range []int{1, 5, 9} {
		if err := save(at("theirs", 0), step); err != nil {
			t.Fatal(err)
		}
	}
	_, err := at("mine", 0).Resume(context.Background(), "none", nil, LoadOptions{})
	if err == nil || !strings.Contains(err.Error(), "holds checkpoints of another run (step-9 of run theirs)") {
		t.Errorf("a new run among them: %v", err)
	}
	if _, err := at("mine", 0).Resume(context.Background(), "auto", nil, LoadOptions{}); err == nil || !strings.Contains(err.Error(), "of another run") {
		t.Errorf("auto: %v", err)
	}
	mine := at("mine", 1)
	for _, step := range []int{2, 3} {
		if err := save(mine, step); err != nil {
			t.Fatal(err)
		}
	}
	if err := save(mine, 5); err == nil || !strings.Contains(err.Error(), "step-5 belongs to another run (theirs) and is not replaced") {
		t.Errorf("the same step: %v", err)
	}
	found, err := List(filepath.Join(dir, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, f := range found {
		left = append(left, fmt.Sprintf("%d %s", f.Step, f.Run))
	}
	if want := []string{"9 theirs", "5 theirs", "3 mine", "1 theirs"}; !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	got, err := mine.Resume(context.Background(), "auto", nil, LoadOptions{})
	if err != nil || got.Meta.Step != 3 || len(got.Notices) != 2 {
		t.Errorf("auto: %+v, %v", got, err)
	}
	if runs, err := RunIDs(filepath.Join(dir, "checkpoints")); err != nil || len(runs) != 2 {
		t.Errorf("%q, %v", runs, err)
	}
}

// TestRunsStayTogether: one replica writes consecutive boxes, the other the next ones.
func TestRunsStayTogether(t *testing.T) {
	all := tensor.FullBox(tensor.Shape{10, 7})
	var world [4][]held
	for rank := range world {
		shard := rank / 2 * 33
		for _, b := range all.Range(shard, min(70, shard+33+rank/2*4)) {
			world[rank] = append(world[rank], held{Param, "w", tensor.F32, all.Sizes, b})
		}
	}
	ts, err := plan(world[:], false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range ts[0].parts {
		got = append(got, fmt.Sprint(p.rank, p.box))
	}
	if want := []string{"0 [0:4,0:7]", "0 [4:5,0:5]", "2 [4:5,5:7]", "2 [5:10,0:7]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
