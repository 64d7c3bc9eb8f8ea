package checkpoint

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"trireme/internal/objectstore/objectstoretest"
)

// claimed gives a Store the epoch of a start of its job.
func claimed(t *testing.T, s *Store, restarts int) *Store {
	t.Helper()
	if err := Claim(t.Context(), []*Store{s}, restarts); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEpoch: a world that a later start of its run has replaced commits, removes and copies nothing any more, on disk and in
// an object store, whether the later one saves the same step or another while it writes.
func TestEpoch(t *testing.T) {
	for _, kind := range []string{"directory", "object store"} {
		for _, step := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, step %d", kind, step), func(t *testing.T) {
				srv, fs := objectstoretest.New(t), newFaultFS()
				open := func() *Store {
					if kind == "directory" {
						return testStore(t, SingleProcess{}, fs, "out", Config{Keep: Keep{KeepLastN: 1}})
					}
					return objectStore(t, SingleProcess{}, srv, Config{Keep: Keep{KeepLastN: 1}})
				}
				save := func(s *Store, step int, seed uint64) error {
					tr := smallTruth(seed)
					_, err := s.Save(t.Context(), tr.meta(step), tr.whole(false))
					return err
				}
				old := claimed(t, open(), 0)
				if err := save(old, 1, 1); err != nil || old.epoch != 1 {
					t.Fatal(err, old.epoch)
				}
				tr := smallTruth(10)
				v, err := old.Start(t.Context(), tr.meta(2), tr.whole(false), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := v.task.wait(); err != nil { // all is written but the commit
					t.Fatal(err)
				}
				later := claimed(t, open(), 1)
				if later.epoch != 3 {
					t.Errorf("the later epoch is %d", later.epoch)
				}
				// On disk it removes what the old one has written, as a killed one leaves it; so put that back.
				var attempt map[string]*node
				if kind == "directory" {
					attempt = maps.Clone(fs.find(v.tmp).entries)
				}
				if err := save(later, step, 20); err != nil {
					t.Fatal(err)
				}
				if kind == "directory" {
					if err := fs.MkdirAll(v.tmp); err != nil {
						t.Fatal(err)
					}
					fs.find(v.tmp).change(attempt)
				}
				refused := func(what string, err error) {
					t.Helper()
					if err == nil || kind == "directory" && !strings.Contains(err.Error(), "is of epoch 3 of the run, this world is of epoch 1") || !strings.HasPrefix(err.Error(), "checkpoint: ") || strings.Contains(err.Error(), "\n") {
						t.Errorf("%s: %v", what, err)
					}
				}
				_, err = v.Wait(t.Context())
				refused("commit", err)
				refused("the next save", save(old, 4, 11))
				disk := testStore(t, SingleProcess{}, nil, t.TempDir(), Config{})
				saved, err := disk.Save(t.Context(), tr.meta(5), tr.whole(false))
				if err != nil {
					t.Fatal(err)
				}
				_, err = disk.StartCopy(t.Context(), saved.Path, 5, old).Wait()
				refused("copy", err)
				if seed, err := holdsIn(t, open()); err != nil || seed != 20 {
					t.Errorf("loads %d: %v", seed, err)
				}
				if err := save(later, 6, 21); err != nil {
					t.Errorf("the later world cannot save: %v", err)
				}
				c, err := claimed(t, open(), 0).openNewest(t)
				if err != nil || c.Meta().Epoch != 3 {
					t.Errorf("%+v, %v", c, err)
				}
			})
		}
	}
}

// openNewest opens the newest checkpoint.
func (s *Store) openNewest(t *testing.T) (*Checkpoint, error) {
	path, _, err := latest(s.fs, s.dir, s.run)
	if err != nil {
		return nil, err
	}
	c, err := open(s.fs, path)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// TestEpochOfOthers: epochs of another run, and of damaged checkpoints, count for nothing.
func TestEpochOfOthers(t *testing.T) {
	fs := newFaultFS()
	s := testStore(t, SingleProcess{}, fs, "out", Config{})
	s.run, s.epoch = "another", 7
	tr := smallTruth(1)
	if _, err := s.Save(t.Context(), tr.meta(1), tr.whole(false)); err != nil {
		t.Fatal(err)
	}
	s.run, s.epoch = "a-run", 9
	if _, err := s.Save(t.Context(), tr.meta(2), tr.whole(false)); err != nil {
		t.Fatal(err)
	}
	m := fs.find("out/checkpoints/step-2/" + manifestName)
	m.data[len(m.data)/2]++
	if s := claimed(t, testStore(t, SingleProcess{}, fs, "out", Config{}), 0); s.epoch != 1 {
		t.Errorf("the epoch is %d", s.epoch)
	}
	m.data[len(m.data)/2]--
	if s := claimed(t, testStore(t, SingleProcess{}, fs, "out", Config{}), 2); s.epoch != 12 {
		t.Errorf("the epoch is %d", s.epoch)
	}
}
