package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"trireme/internal/objectstore/objectstoretest"
)

// copied is a run with checkpoints of steps 1 to 3, from which copies are made; the seed of each is its step.
func copied(t *testing.T) *Store {
	t.Helper()
	disk := testStore(t, SingleProcess{}, newFaultFS(), "run", Config{})
	for step := 1; step <= 3; step++ {
		tr := smallTruth(uint64(step))
		if _, err := disk.Save(t.Context(), tr.meta(step), tr.whole(false)); err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

// copyStep copies a step. A loss of power ends it with errPower.
func copyStep(t *testing.T, from *Store, step int, to *Store) (err error) {
	defer func() {
		if p := recover(); p == errPower {
			err = errPower
		} else if p != nil {
			panic(p)
		}
	}()
	_, err = from.StartCopy(t.Context(), join("run/checkpoints", stepDir(step)), step, to).Wait()
	return err
}

// lastTier is a last tier in a file system, which keeps one checkpoint.
func lastTier(t *testing.T, fs *faultFS) *Store {
	return testStore(t, SingleProcess{}, fs, "out", Config{Keep: Keep{KeepLastN: 1}})
}

// afterCopy checks a tier after a copy of step 2 with a failure: it has step 1 or 2 with its bits, 2 if the copy succeeded, and
// a later copy succeeds and leaves nothing else.
func afterCopy(t *testing.T, from *Store, open func() *Store, failed error, what string) {
	t.Helper()
	step, err := holdsIn(t, open())
	if err != nil || step != 2 && (failed == nil || step != 1) {
		t.Fatalf("%s (the copy: %v): loads %d: %v", what, failed, step, err)
	}
	if err := copyStep(t, from, 3, open()); err != nil {
		t.Fatalf("%s: the next copy: %v", what, err)
	}
	if got := steps(t, open()); len(got) != 1 || got[0] != 3 {
		t.Fatalf("%s: after the next copy there are steps %v", what, got)
	}
}

// TestCopyFails: a copy that fails at any call, once or from then on, leaves the copies before, and a later one succeeds.
func TestCopyFails(t *testing.T) {
	from, start, points := copied(t), newFaultFS(), 0
	if err := copyStep(t, from, 1, lastTier(t, start)); err != nil {
		t.Fatal(err)
	}
	for _, failure := range []error{syscall.EIO, syscall.ENOSPC} {
		for _, forGood := range []bool{false, true} {
			for n, reached := 1, true; reached; n++ {
				fs := start.afterPowerLoss(nil, keepAll)
				fs.failAt, fs.forGood, fs.failure = n, forGood, failure
				failed := copyStep(t, from, 2, lastTier(t, fs))
				reached = fs.calls >= n
				fs.failAt = 0
				what := fmt.Sprintf("%v at call %d, for good: %v", failure, n, forGood)
				if failed != nil && !errors.Is(failed, failure) || failed != nil && strings.Contains(failed.Error(), "\n") || fs.open != 0 {
					t.Fatalf("%s: %v, %d files are open", what, failed, fs.open)
				}
				afterCopy(t, from, func() *Store { return lastTier(t, fs) }, failed, what)
				if left := fs.tree(); strings.Contains(left, "/"+tempPrefix) {
					t.Fatalf("%s: left behind:\n%s", what, left)
				}
				points++
			}
		}
	}
	if points < 100 {
		t.Errorf("only %d points", points)
	}
	t.Logf("%d points", points)
}

// TestCopyPowerLoss: power is cut before and after every call of a copy.
func TestCopyPowerLoss(t *testing.T) {
	from, start, points := copied(t), newFaultFS(), 0
	if err := copyStep(t, from, 1, lastTier(t, start)); err != nil {
		t.Fatal(err)
	}
	start = start.afterPowerLoss(nil, loseAll)
	rng := rand.New(rand.NewPCG(7, 7))
	for n, cut := 1, true; cut; n++ {
		for _, end := range []bool{false, true} {
			fs := start.afterPowerLoss(nil, keepAll)
			fs.powerAt, fs.powerEnd = n, end
			failed := copyStep(t, from, 2, lastTier(t, fs))
			cut = fs.dead
			for v := range 4 {
				disk := fs.afterPowerLoss(rng, min(v, loseSome))
				afterCopy(t, from, func() *Store { return lastTier(t, disk) }, failed, fmt.Sprintf("power gone at call %d (after it: %v), variant %d", n, end, v))
				points++
			}
		}
	}
	if points < 100 {
		t.Errorf("only %d points", points)
	}
	t.Logf("%d points", points)
}

// TestCopyToStoreFails: a request of a copy to an object store fails once, which it survives, or all do from then on.
func TestCopyToStoreFails(t *testing.T) {
	from, start, points := copied(t), objectstoretest.New(t), 0
	open := func(srv *objectstoretest.Server) *Store {
		return objectStore(t, SingleProcess{}, srv, Config{Keep: Keep{KeepLastN: 1}})
	}
	if err := copyStep(t, from, 1, open(start)); err != nil {
		t.Fatal(err)
	}
	whole := start.Copy(t)
	if err := copyStep(t, from, 2, open(whole)); err != nil {
		t.Fatal(err)
	}
	forGood := []objectstoretest.Kind{objectstoretest.CutBefore, objectstoretest.CutAfter, objectstoretest.Busy, objectstoretest.Denied, objectstoretest.WrongSum}
	for n := 1; n <= whole.Requests(); n++ {
		for k, kind := range slices.Concat(objectstoretest.Transient, forGood) {
			once := k < len(objectstoretest.Transient)
			if !allFaults && (n+k)%3 != 0 {
				continue
			}
			srv, f := start.Copy(t), objectstoretest.Failure{Kind: kind, From: n}
			if once {
				f.To = n
			}
			srv.Fail(f)
			failed := copyStep(t, from, 2, open(srv))
			srv.Fail()
			what := fmt.Sprintf("%v at request %d, once: %v", kind, n, once)
			if once && failed != nil {
				t.Fatalf("%s: %v", what, failed)
			}
			afterCopy(t, from, func() *Store { return open(srv) }, failed, what)
			if left := leftovers(srv); len(left) > 0 {
				t.Fatalf("%s: left behind: %v", what, left)
			}
			points++
			srv.Close()
		}
	}
	if points < 100 {
		t.Errorf("only %d points", points)
	}
	t.Logf("%d points", points)
}
