package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/internal/objectstore/objectstoretest"
	"trireme/tensor"
)

// partsTruth has two tensors. The file of each of two ranks has several parts.
func partsTruth(seed uint64) truth {
	shape := tensor.Shape{300}
	return truth{seed, []Tensor{{Param, "w", tensor.F32, shape}, {"exp_avg", "w", tensor.F32, shape}}}
}

// copiedFiles is a run on a disk with checkpoints of steps 1 and 2 in two files, of several parts each, from which copies
// are made; the seed of each is its step.
func copiedFiles(t *testing.T) (*faultFS, *Store) {
	t.Helper()
	fs := newFaultFS()
	for step := 1; step <= 2; step++ {
		saveFiles(t, fs, step, uint64(step))
	}
	return fs, testStore(t, SingleProcess{}, fs, "run", Config{})
}

func saveFiles(t *testing.T, fs *faultFS, step int, seed uint64) {
	t.Helper()
	tr := partsTruth(seed)
	items := tr.split(2, rand.New(rand.NewPCG(1, 1)), true, false)
	if err := errors.Join(newWorld(2).run(func(m member) error {
		s := testStore(t, m, fs, "run", Config{})
		s.chunk = 512
		_, err := s.Save(t.Context(), tr.meta(step), items[m.rank])
		return err
	})...); err != nil {
		t.Fatal(err)
	}
}

// copyOf copies a step.
func copyOf(t *testing.T, from *Store, step int, to *Store) (SaveResult, error) {
	return from.StartCopy(t.Context(), join(from.dir, stepDir(step)), step, to).Wait()
}

// loads returns the seed of the newest checkpoint of a tier.
func loads(t *testing.T, s *Store) (uint64, error) {
	tr := partsTruth(0)
	items := tr.whole(true)
	r, err := s.Resume(t.Context(), "auto", items, LoadOptions{})
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscanf(string(r.Meta.State), `{"seed":%d}`, &tr.seed); err != nil {
		return 0, err
	}
	return tr.seed, tr.same(items)
}

// inFiles is the number of bytes that a store has of the files of step 2, in objects and in parts of uploads; 0 before the
// manifest, which has several parts too, is complete.
func inFiles(srv *objectstoretest.Server) (n int64) {
	prefix := strings.TrimPrefix(objectDir, "s3://"+objectstoretest.Bucket+"/") + "/step-2-"
	n, complete := srv.Stored(prefix), false
	for _, key := range srv.Keys() {
		if name := path.Base(key); strings.HasPrefix(key, prefix) && (name == manifestName || name == commitName) {
			n, complete = n-int64(len(srv.Get(key))), true
		}
	}
	if !complete {
		return 0
	}
	return n
}

func keepOne(t *testing.T, srv *objectstoretest.Server) *Store {
	return objectStore(t, SingleProcess{}, srv, Config{Keep: Keep{KeepLastN: 1}})
}

// interruptedCopy is a store with a copy of step 1, and one of step 2 that was cut in its second file, with parts of that.
func interruptedCopy(t *testing.T, disk *Store) *objectstoretest.Server {
	t.Helper()
	srv := objectstoretest.New(t)
	if _, err := copyOf(t, disk, 1, keepOne(t, srv)); err != nil {
		t.Fatal(err)
	}
	first := inFirstFile(t, disk)
	for n := 1; ; n++ {
		cut := srv.Copy(t)
		cut.Fail(objectstoretest.Failure{Kind: objectstoretest.Busy, From: n})
		if _, err := copyOf(t, disk, 2, keepOne(t, cut)); err == nil {
			t.Fatal("no request is in the second file")
		}
		cut = cut.Copy(t) // without requests that are still on their way
		if cut.Uploads() == 1 && inFiles(cut) > first {
			return cut
		}
	}
}

func inFirstFile(t *testing.T, disk *Store) int64 {
	t.Helper()
	m, err := verify(disk.fs, join(disk.dir, stepDir(2)))
	if err != nil || len(m.Files) != 2 || m.Files[0].Size < 600 || m.Files[1].Size < 600 {
		t.Fatal(m, err)
	}
	return m.Files[0].Size
}

// TestCopyContinues: a copy is cut for good at each request, and another one follows. The second one sends what the store does not
// have yet, no byte more.
func TestCopyContinues(t *testing.T) {
	_, disk := copiedFiles(t)
	start, points, continued := objectstoretest.New(t), 0, 0
	if _, err := copyOf(t, disk, 1, keepOne(t, start)); err != nil {
		t.Fatal(err)
	}
	whole := start.Copy(t)
	saved, err := copyOf(t, disk, 2, keepOne(t, whole))
	if err != nil || saved.Kept != 0 {
		t.Fatal(saved, err)
	}
	all := whole.Received()
	const inFlight = 4 * 300 // parts whose answers were not awaited
	manifest := all - inFiles(whole)
	cuts := []objectstoretest.Failure{
		{Kind: objectstoretest.CutBefore}, {Kind: objectstoretest.Busy}, {Kind: objectstoretest.Denied}, {Kind: objectstoretest.CutAfter}, {Kind: objectstoretest.WrongSum},
		{Kind: objectstoretest.Denied, Method: http.MethodPut}, {Kind: objectstoretest.Busy, Method: http.MethodPost}, // what is there could be removed
	}
	for n := 1; n <= whole.Requests(); n++ {
		for k, cut := range cuts {
			if !allFaults && (n+k)%3 != 0 {
				continue
			}
			cut.From = n
			kind, what := cut.Kind, fmt.Sprintf("%v from request %s %d on", cut.Kind, cut.Method, n)
			first := start.Copy(t)
			first.Fail(cut)
			_, failed := copyOf(t, disk, 2, keepOne(t, first))
			srv := first.Copy(t) // without requests that are still on their way
			had, uploads := inFiles(srv), srv.Uploads()
			saved, err := copyOf(t, disk, 2, keepOne(t, srv))
			if err != nil {
				t.Fatalf("%s (%v): the second copy: %v", what, failed, err)
			}
			// A request that begins an upload may have been executed several times: one of them is continued.
			if saved.Kept != had && uploads < 2 {
				t.Fatalf("%s: %d bytes were kept of %d", what, saved.Kept, had)
			}
			if sent := srv.Received(); sent > all-had {
				t.Fatalf("%s: %d bytes were sent again, of %d the store had %d", what, sent, all, had)
			}
			lost := int64(inFlight)
			if had == 0 {
				lost += manifest // it was not complete
			}
			if repeated := kind == objectstoretest.CutAfter || kind == objectstoretest.WrongSum; !repeated && first.Received()+srv.Received() > all+lost {
				t.Fatalf("%s: %d and %d bytes were sent, the checkpoint has %d", what, first.Received(), srv.Received(), all)
			}
			if seed, err := loads(t, keepOne(t, srv)); err != nil || seed != 2 {
				t.Fatalf("%s: loads %d: %v", what, seed, err)
			}
			if left := leftovers(srv); len(left) > 0 || !slices.Equal(steps(t, keepOne(t, srv)), []int{2}) {
				t.Fatalf("%s: left behind: %v\n%s", what, left, strings.Join(srv.Keys(), "\n"))
			}
			if points++; had > 0 {
				continued++
			}
			first.Close()
			srv.Close()
		}
	}
	if continued < 20 {
		t.Errorf("only %d of %d copies were continued", continued, points)
	}
	t.Logf("%d points, %d of them continued", points, continued)
}

// TestCopyContinuesOnlyItself: only a copy of the same checkpoint of the same run uses the files of an interrupted one, and it
// sends wrong ones again. A save and another copy of the run remove them, another run does not.
func TestCopyContinuesOnlyItself(t *testing.T) {
	start, from := copiedFiles(t)
	cut := interruptedCopy(t, from)
	for _, c := range []struct {
		name string
		then func(t *testing.T, srv *objectstoretest.Server, fs *faultFS, disk, to *Store) (SaveResult, error)
		kept func(had, first int64) int64
		seed uint64
		left bool
	}{
		{"the same", func(t *testing.T, _ *objectstoretest.Server, _ *faultFS, disk, to *Store) (SaveResult, error) {
			return copyOf(t, disk, 2, to)
		}, func(had, _ int64) int64 { return had }, 2, false},
		{"the step has other bits", func(t *testing.T, _ *objectstoretest.Server, fs *faultFS, disk, to *Store) (SaveResult, error) {
			saveFiles(t, fs, 2, 20)
			return copyOf(t, disk, 2, to)
		}, nil, 20, false},
		{"another step", func(t *testing.T, _ *objectstoretest.Server, fs *faultFS, disk, to *Store) (SaveResult, error) {
			saveFiles(t, fs, 3, 3)
			return copyOf(t, disk, 3, to)
		}, nil, 3, false},
		{"a save", func(t *testing.T, _ *objectstoretest.Server, _ *faultFS, _, to *Store) (SaveResult, error) {
			tr := partsTruth(2)
			return to.Save(t.Context(), tr.meta(2), tr.whole(false))
		}, nil, 2, false},
		{"another run", func(t *testing.T, _ *objectstoretest.Server, _ *faultFS, _, to *Store) (SaveResult, error) {
			to.run = "another"
			tr := partsTruth(3)
			return to.Save(t.Context(), tr.meta(3), tr.whole(false))
		}, nil, 3, true},
		{"a file has another size", func(t *testing.T, srv *objectstoretest.Server, _ *faultFS, disk, to *Store) (SaveResult, error) {
			srv.Set(fileOfAttempt(t, srv), []byte("short"))
			return copyOf(t, disk, 2, to)
		}, func(had, first int64) int64 { return had - first }, 2, false},
		{"a file has another header", func(t *testing.T, srv *objectstoretest.Server, _ *faultFS, disk, to *Store) (SaveResult, error) {
			key := fileOfAttempt(t, srv)
			b := slices.Clone(srv.Get(key))
			b[9]++
			srv.Set(key, b)
			return copyOf(t, disk, 2, to)
		}, func(had, first int64) int64 { return had - first }, 2, false},
		{"it was aborted again", func(t *testing.T, srv *objectstoretest.Server, _ *faultFS, disk, to *Store) (SaveResult, error) {
			srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Hang, From: 2, Method: http.MethodPut})
			c := disk.StartCopy(t.Context(), join(disk.dir, stepDir(2)), 2, to)
			time.Sleep(50 * time.Millisecond)
			c.Abort()
			if _, err := c.Wait(); err == nil {
				t.Error("it had ended")
			}
			srv.Fail()
			return copyOf(t, disk, 2, to)
		}, func(had, _ int64) int64 { return had }, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, srv := start.afterPowerLoss(nil, keepAll), cut.Copy(t)
			disk, had := testStore(t, SingleProcess{}, fs, "run", Config{}), inFiles(srv)
			saved, err := c.then(t, srv, fs, disk, keepOne(t, srv))
			if err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			if c.kept != nil {
				want = c.kept(had, inFirstFile(t, disk))
			}
			if saved.Kept < want || saved.Kept > want && c.name != "it was aborted again" { // which has perhaps sent more
				t.Errorf("%d bytes were kept of %d, want %d", saved.Kept, had, want)
			}
			if left := leftovers(srv); (len(left) > 0) != c.left {
				t.Errorf("left behind: %v", left)
			}
			open := keepOne(t, srv)
			if c.left {
				open.run = ""
			}
			if seed, err := loads(t, open); err != nil || seed != c.seed {
				t.Errorf("loads %d: %v", seed, err)
			}
		})
	}
}

// fileOfAttempt is the key of the file of step 2 that was sent in full.
func fileOfAttempt(t *testing.T, srv *objectstoretest.Server) string {
	t.Helper()
	for _, key := range srv.Keys() {
		if strings.Contains(key, "/step-2-") && strings.HasSuffix(key, ".safetensors") {
			return key
		}
	}
	t.Fatal(srv.Keys())
	return ""
}

// TestCopyDamagedSendsNothing: a damaged checkpoint is seen before anything is sent, so no later copy continues its bytes.
func TestCopyDamagedSendsNothing(t *testing.T) {
	fs, disk := copiedFiles(t)
	srv := objectstoretest.New(t)
	last := fs.find(join(disk.dir, stepDir(2), "rank-00001.safetensors")).data
	last[len(last)-1]++
	if _, err := copyOf(t, disk, 2, keepOne(t, srv)); !errors.Is(err, ErrCorrupt) || len(srv.Keys()) > 0 || srv.Received() > 0 {
		t.Errorf("%v: %v", err, srv.Keys())
	}
}

// TestCopyOfLaterStart: a copy that a later start of the run has continued and committed stays when the older one is refused.
func TestCopyOfLaterStart(t *testing.T) {
	fs, disk := copiedFiles(t)
	srv := objectstoretest.New(t)
	open := func(epoch int) *Store {
		s := objectStore(t, SingleProcess{}, srv, Config{})
		s.epoch = epoch
		return s
	}
	later := open(5)
	srv.After(http.MethodPost, 2, func() { // the manifest is there
		if _, err := copyOf(t, testStore(t, SingleProcess{}, fs, "run", Config{}), 2, later); err != nil {
			t.Error(err)
		}
		tr := partsTruth(3)
		if _, err := later.Save(t.Context(), tr.meta(3), tr.whole(false)); err != nil {
			t.Error(err)
		}
	})
	if _, err := copyOf(t, disk, 2, open(4)); err == nil || !errors.Is(err, errLater) && !unavailable(err) {
		t.Error(err)
	}
	if got := steps(t, later); !slices.Equal(got, []int{3, 2}) {
		t.Errorf("there are steps %v\n%s", got, strings.Join(srv.Keys(), "\n"))
	}
}
