package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"trireme/internal/objectstore"
	"trireme/internal/objectstore/objectstoretest"
)

const objectDir = "s3://" + objectstoretest.Bucket + "/a/run"

// allFaults runs tests with each fault at each request; else some of them, in a few seconds.
var allFaults = os.Getenv("TRIREME_ALL_FAULTS") != ""

func objectStore(t testing.TB, m ProcessGroup, srv *objectstoretest.Server, cfg Config) *Store {
	t.Helper()
	cfg.Dir = objectDir
	s := &Store{dir: objectDir, run: "a-run", cfg: cfg, ranks: m, fs: objects{ctx: context.Background(), c: srv.Client(t)}, chunk: 64, protected: -1, epoch: 3}
	return s
}

func (s scenario) saveObjects(t *testing.T, srv *objectstoretest.Server, step int, seed uint64) []error {
	tr := smallTruth(seed)
	items := tr.split(s.ranks, rand.New(rand.NewPCG(1, 1)), true, false)
	return newWorld(s.ranks).run(func(m member) error {
		_, err := saveTo(objectStore(t, m, srv, s.cfg), m, tr.meta(step), items[m.rank])
		return err
	})
}

// holdsObjects loads the newest checkpoint and returns its seed.
func holdsObjects(t *testing.T, srv *objectstoretest.Server) (seed uint64, err error) {
	return holdsIn(t, objectStore(t, SingleProcess{}, srv, Config{}))
}

func (s scenario) startObjects(t *testing.T) *objectstoretest.Server {
	srv := objectstoretest.New(t)
	for step := 1; step <= 2; step++ {
		for _, err := range s.saveObjects(t, srv, step, before-2+uint64(step)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return srv
}

func objectScenarios() (all []scenario) {
	for _, s := range scenarios() {
		if s.cfg.StateDictType == Sharded || s.ranks == 1 {
			all = append(all, s)
		}
	}
	return all
}

// leftovers lists what only an interrupted save leaves.
func leftovers(srv *objectstoretest.Server) (left []string) {
	dirs := map[string]bool{}
	for _, key := range srv.Keys() {
		dirs[filepath.Dir(key)] = dirs[filepath.Dir(key)] || filepath.Base(key) == commitName
	}
	for dir, committed := range dirs {
		if !committed {
			left = append(left, dir)
		}
	}
	if n := srv.Uploads(); n > 0 {
		left = append(left, fmt.Sprintf("%d uploads", n))
	}
	return left
}

// requests counts those of a save without faults.
func (s scenario) requests(t *testing.T, start *objectstoretest.Server) int {
	srv := start.Copy(t)
	defer srv.Close()
	for _, err := range s.saveObjects(t, srv, s.step, after) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return srv.Requests()
}

// TestObjectFaultOnce: one request of a save fails, in each way that a client survives.
func TestObjectFaultOnce(t *testing.T) {
	var points atomic.Int64
	t.Cleanup(func() { t.Logf("%d points", points.Load()) })
	for i, s := range objectScenarios() {
		t.Run(fmt.Sprintf("%s %s %d ranks", s.name, s.cfg.StateDictType, s.ranks), func(t *testing.T) {
			t.Parallel()
			start := s.startObjects(t)
			for n := range s.requests(t, start) {
				for k, kind := range objectstoretest.Transient {
					if !allFaults && (n+k+i)%(3*len(objectstoretest.Transient)) != 0 {
						continue
					}
					srv := start.Copy(t)
					srv.Fail(objectstoretest.Failure{Kind: kind, From: n + 1, To: n + 1})
					errs := s.saveObjects(t, srv, s.step, after)
					for _, err := range errs {
						if err != nil {
							t.Fatalf("%v at request %d: %v", kind, n, errs)
						}
					}
					srv.Fail()
					if seed, err := holdsObjects(t, srv); err != nil || seed != after {
						t.Fatalf("%v at request %d: loads %d: %v\n%s", kind, n, seed, err, strings.Join(srv.Keys(), "\n"))
					}
					if left := leftovers(srv); len(left) > 0 && (len(left) > 1 || srv.Uploads() == 0) { // a repeated request may have begun an upload twice
						t.Fatalf("%v at request %d: left behind: %v", kind, n, left)
					}
					points.Add(1)
					srv.Close()
				}
			}
		})
	}
}

// TestObjectFaultForGood: from one request of a save on the store is gone, as if the process had been killed: what
// it has then is before or after the save, and the next save removes the rest.
func TestObjectFaultForGood(t *testing.T) {
	var points atomic.Int64
	t.Cleanup(func() { t.Logf("%d points", points.Load()) })
	kinds := []objectstoretest.Kind{objectstoretest.CutBefore, objectstoretest.CutAfter, objectstoretest.Busy, objectstoretest.Denied, objectstoretest.WrongSum}
	for i, s := range objectScenarios() {
		t.Run(fmt.Sprintf("%s %s %d ranks", s.name, s.cfg.StateDictType, s.ranks), func(t *testing.T) {
			t.Parallel()
			start := s.startObjects(t)
			for n := range s.requests(t, start) {
				for k, kind := range kinds {
					if !allFaults && (n+k+i)%(5*len(kinds)) != 0 {
						continue
					}
					srv := start.Copy(t)
					srv.Fail(objectstoretest.Failure{Kind: kind, From: n + 1})
					errs := s.saveObjects(t, srv, s.step, after)
					failed := errs[0] != nil
					for _, err := range errs {
						if (err != nil) != failed || failed && (!strings.HasPrefix(err.Error(), "checkpoint: ") || strings.Contains(strings.TrimSpace(err.Error()), "\n\n")) {
							t.Fatalf("%v from request %d on: errors are %v", kind, n, errs)
						}
					}
					srv.Fail()
					seed, err := holdsObjects(t, srv)
					if err != nil || seed != before && seed != after || !failed && seed != after {
						t.Fatalf("%v from request %d on (save: %v): loads %d: %v\n%s", kind, n, errs[0], seed, err, strings.Join(srv.Keys(), "\n"))
					}
					for _, err := range s.saveObjects(t, srv, s.step, after+1) {
						if err != nil {
							t.Fatalf("%v from request %d on: the next save: %v", kind, n, err)
						}
					}
					if seed, err := holdsObjects(t, srv); err != nil || seed != after+1 {
						t.Fatalf("%v from request %d on: after the next save loads %d: %v", kind, n, seed, err)
					}
					if left := leftovers(srv); len(left) > 0 {
						t.Fatalf("%v from request %d on: left behind: %v", kind, n, left)
					}
					points.Add(1)
					srv.Close()
				}
			}
		})
	}
}

// TestObjectLoadFaults: one request of a load fails, and then all.
func TestObjectLoadFaults(t *testing.T) {
	s := scenario{"", 3, Config{}, 3}
	start := s.startObjects(t)
	points := 0
	for n, reached := 1, true; reached; n++ {
		for _, kind := range objectstoretest.Transient {
			start.Fail(objectstoretest.Failure{Kind: kind, From: n, To: n})
			seed, err := holdsObjects(t, start)
			reached = start.Requests() >= n
			if err != nil || seed != before {
				t.Fatalf("%v at request %d: loads %d: %v", kind, n, seed, err)
			}
			points++
		}
		start.Fail(objectstoretest.Failure{Kind: objectstoretest.Busy, From: n})
		if seed, err := holdsObjects(t, start); reached && (!errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("busy from request %d on: loads %d: %v", n, seed, err)
		}
		points++
	}
	t.Logf("%d points", points)
}

// TestObjectsOnDisk: a copy of the objects is a checkpoint of the file system.
func TestObjectsOnDisk(t *testing.T) {
	srv := (scenario{"", 3, Config{}, 3}).startObjects(t)
	dir := t.TempDir()
	for _, key := range srv.Keys() {
		at := filepath.Join(dir, filepath.FromSlash(key))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, srv.Get(key), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	dir = filepath.Join(dir, "a", "run")
	path, notices, err := Latest(dir, "a-run")
	if err != nil || len(notices) > 0 || !strings.HasPrefix(filepath.Base(path), "step-2-1-") {
		t.Fatal(path, notices, err)
	}
	for _, resume := range []string{path, dir} {
		tr := smallTruth(before)
		items := tr.whole(true)
		if _, err := testStore(t, SingleProcess{}, disk{}, t.TempDir(), Config{}).Resume(t.Context(), resume, items, LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := tr.same(items); err != nil {
			t.Fatal(err)
		}
	}
}

// TestObjectsOfAnotherRun are neither loaded nor replaced.
func TestObjectsOfAnotherRun(t *testing.T) {
	srv := (scenario{"", 1, Config{}, 3}).startObjects(t)
	s := objectStore(t, SingleProcess{}, srv, Config{Keep: Keep{KeepLastN: 1}})
	s.run = "another"
	tr := smallTruth(after)
	if _, err := s.Save(t.Context(), tr.meta(2), tr.whole(false)); err == nil || !strings.Contains(err.Error(), "belongs to another run") {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), tr.meta(3), tr.whole(false)); err != nil {
		t.Fatal(err)
	}
	found, err := list(s.fs, objectDir)
	if err != nil || len(found) != 3 {
		t.Fatal(found, err)
	}
	if _, _, err := latest(s.fs, objectDir, "a third"); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Fatal(err)
	}
}

// TestTwoCheckpointsOfAStep: the newer one wins, and the next save removes the other.
func TestTwoCheckpointsOfAStep(t *testing.T) {
	s := scenario{"", 1, Config{}, 2}
	srv := s.startObjects(t)
	old := map[string][]byte{}
	for _, key := range srv.Keys() {
		old[key] = srv.Get(key)
	}
	for _, err := range s.saveObjects(t, srv, 2, after) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, b := range old {
		srv.Set(key, b)
	}
	if seed, err := holdsObjects(t, srv); err != nil || seed != after {
		t.Fatal(seed, err)
	}
	store := objectStore(t, SingleProcess{}, srv, Config{})
	found, err := list(store.fs, objectDir)
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	if path, err := StepPath(t.Context(), []*Store{store}, 2); err != nil || path != found[0].Path {
		t.Fatal(path, err)
	}
	for _, err := range s.saveObjects(t, srv, 3, after+1) {
		if err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, key := range srv.Keys() {
		if strings.Contains(key, "/step-2-") && filepath.Base(key) == commitName {
			n++
		}
	}
	if n != 1 {
		t.Fatal(srv.Keys())
	}
}
