package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/internal/objectstore/objectstoretest"
)

// TestCopy: a copy in a directory and in an object store loads to the same bits, without what its tier does not keep.
func TestCopy(t *testing.T) {
	srv := objectstoretest.New(t)
	for _, kind := range []string{"directory", "object store"} {
		t.Run(kind, func(t *testing.T) {
			disk := testStore(t, SingleProcess{}, nil, t.TempDir(), Config{Keep: Keep{KeepLastN: 1}})
			to := objectStore(t, SingleProcess{}, srv, Config{Keep: Keep{KeepLastN: 2}})
			if kind == "directory" {
				to = testStore(t, SingleProcess{}, nil, t.TempDir(), Config{Keep: Keep{KeepLastN: 2}})
			}
			for step := 1; step <= 4; step++ {
				tr := newTruth(uint64(step))
				saved, err := disk.Save(t.Context(), tr.meta(step), tr.whole(false))
				if err != nil {
					t.Fatal(err)
				}
				c := disk.StartCopy(t.Context(), saved.Path, step, to)
				if copied, err := c.Wait(); err != nil || copied.Bytes != saved.Bytes || len(copied.Notices) > 0 || !c.Ended() {
					t.Fatalf("%+v, %v", copied, err)
				}
			}
			found, err := list(to.fs, to.dir)
			var steps []int
			for _, f := range found {
				if f.Err != nil {
					t.Error(f.Err)
				}
				steps = append(steps, f.Step)
			}
			if err != nil || !slices.Equal(steps, []int{4, 3}) {
				t.Errorf("there are steps %v, %v", steps, err)
			}
			items, tr := newTruth(4).whole(true), newTruth(4)
			r, err := ResumeNewest(t.Context(), []*Store{testStore(t, SingleProcess{}, nil, t.TempDir(), Config{}), to}, items)
			if err != nil || r.Meta.Step != 4 {
				t.Fatalf("%+v, %v", r, err)
			}
			if err := tr.same(items); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCopyDamaged: a damaged checkpoint is not copied.
func TestCopyDamaged(t *testing.T) {
	out, tr := t.TempDir(), smallTruth(1)
	disk := testStore(t, SingleProcess{}, nil, out, Config{})
	saved, err := disk.Save(t.Context(), tr.meta(1), tr.whole(false))
	if err != nil {
		t.Fatal(err)
	}
	flipFiles(t, saved.Path)
	to := testStore(t, SingleProcess{}, newFaultFS(), "out", Config{})
	if _, err := disk.StartCopy(t.Context(), saved.Path, 1, to).Wait(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged checkpoint was copied: %v", err)
	}
}

// flipFiles changes the last byte of each tensor file.
func flipFiles(t *testing.T, dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1]++
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCopyIsKept: a checkpoint is not deleted while it is copied.
func TestCopyIsKept(t *testing.T) {
	out := t.TempDir()
	disk := testStore(t, SingleProcess{}, nil, out, Config{Keep: Keep{KeepLastN: 1}})
	slow := slowFS{newFaultFS(), make(chan struct{})}
	var c *Copying
	for step := 1; step <= 3; step++ {
		tr := smallTruth(uint64(step))
		saved, err := disk.Save(t.Context(), tr.meta(step), tr.whole(false))
		if err != nil {
			t.Fatal(err)
		}
		if step == 1 {
			c = disk.StartCopy(t.Context(), saved.Path, 1, testStore(t, SingleProcess{}, slow, "out", Config{}))
		}
	}
	steps := func() string {
		found, err := List(filepath.Join(out, "checkpoints"))
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for _, f := range found {
			s = append(s, fmt.Sprint(f.Step))
		}
		return strings.Join(s, " ")
	}
	if got := steps(); got != "3 1" {
		t.Errorf("while it is copied there are %s", got)
	}
	close(slow.tokens)
	if _, err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	tr := smallTruth(4)
	if _, err := disk.Save(t.Context(), tr.meta(4), tr.whole(false)); err != nil {
		t.Fatal(err)
	}
	if got := steps(); got != "4" {
		t.Errorf("afterwards there are %s", got)
	}
}

// TestCopyFull: one file of several ranks, which they cannot write to an object store, is copied there, and loads.
func TestCopyFull(t *testing.T) {
	to := objectStore(t, SingleProcess{}, objectstoretest.New(t), Config{})
	out, tr := t.TempDir(), smallTruth(1)
	items := tr.split(3, rand.New(rand.NewPCG(1, 1)), true, false)
	if err := errors.Join(newWorld(3).run(func(m member) error {
		s := testStore(t, m, nil, out, Config{StateDictType: Full})
		saved, err := s.Save(t.Context(), tr.meta(1), items[m.rank])
		if err != nil || m.rank > 0 {
			return err
		}
		_, err = s.StartCopy(t.Context(), saved.Path, 1, to).Wait()
		return err
	})...); err != nil {
		t.Fatal(err)
	}
	if seed, err := holdsIn(t, to); err != nil || seed != 1 {
		t.Fatal(seed, err)
	}
	_, err := NewStore(out, "a-run", Config{Dir: objectDir, StateDictType: Full}, member{newWorld(3), 0}, nil)
	if err == nil || !strings.Contains(err.Error(), "ranks cannot share a file in an object store") || !strings.Contains(err.Error(), "try: checkpoint.state_dict_type=sharded") {
		t.Errorf("full with 3 ranks: %v", err)
	}
}
