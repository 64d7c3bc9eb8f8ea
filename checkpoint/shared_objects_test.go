package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/objectstore/objectstoretest"
)

// steps lists the valid checkpoints of a run.
func steps(t *testing.T, s *Store) (steps []int) {
	t.Helper()
	found, err := list(s.fs, s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Err != nil {
			t.Errorf("%s: %v", f.Path, f.Err)
		} else if owns(s.run, f) {
			steps = append(steps, f.Step)
		}
	}
	return steps
}

// TestTwoRunsInOnePrefix: a run does not remove the save in progress of another one, of another step or of the same, and
// of two saves of a step the second fails.
func TestTwoRunsInOnePrefix(t *testing.T) {
	for _, step := range []int{1, 2} {
		t.Run(fmt.Sprintf("steps 1 and %d", step), func(t *testing.T) {
			srv := objectstoretest.New(t)
			one, two := objectStore(t, SingleProcess{}, srv, Config{Keep: Keep{KeepLastN: 1}}), objectStore(t, SingleProcess{}, srv, Config{Keep: Keep{KeepLastN: 1}})
			one.run, two.run = "one", "two"
			tr := smallTruth(1)
			v, err := one.Start(t.Context(), tr.meta(1), tr.whole(false), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.task.wait(); err != nil { // all is written but the commit
				t.Fatal(err)
			}
			if _, err := two.Save(t.Context(), tr.meta(step), tr.whole(false)); err != nil {
				t.Fatal(err)
			}
			_, err = v.Wait(t.Context())
			if step == 2 && (err != nil || len(steps(t, one)) != 1) {
				t.Errorf("%v\n%s", err, strings.Join(srv.Keys(), "\n"))
			}
			if step == 1 && (err == nil || !strings.Contains(err.Error(), "belongs to another run") || !strings.Contains(err.Error(), "try: ")) {
				t.Errorf("both saved step 1: %v", err)
			}
			if len(steps(t, two)) != 1 {
				t.Errorf("the checkpoint of the other run is gone: %v", srv.Keys())
			}
		})
	}
}

// TestOldAttempts: a save removes the attempts of its own run at once, and those of another run when they are old.
func TestOldAttempts(t *testing.T) {
	for _, c := range []struct {
		name string
		run  string
		age  time.Duration
		gone bool
	}{{"own", "a-run", 0, true}, {"another", "another", time.Hour, false}, {"another, old", "another", 25 * time.Hour, true}} {
		t.Run(c.name, func(t *testing.T) {
			srv := objectstoretest.New(t)
			left := objectStore(t, SingleProcess{}, srv, Config{})
			attempt, err := left.fs.begin(objectDir, c.run, 7)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeSmall(left.fs, join(attempt, "rank-00000.safetensors"), []byte("half")); err != nil {
				t.Fatal(err)
			}
			f, err := left.fs.Create(join(attempt, "rank-00001.safetensors"))
			if err == nil {
				err = f.Truncate(1000)
			}
			if err == nil {
				_, err = f.WriteAt(make([]byte, 700), 0)
			}
			if err != nil || srv.Uploads() != 1 { // and the process is killed
				t.Fatal(err, srv.Uploads())
			}
			srv.Age(c.age)
			tr := smallTruth(1)
			if _, err := objectStore(t, SingleProcess{}, srv, Config{}).Save(t.Context(), tr.meta(8), tr.whole(false)); err != nil {
				t.Fatal(err)
			}
			there := slices.ContainsFunc(srv.Keys(), func(key string) bool { return strings.HasPrefix("s3://bucket/"+key, attempt) })
			if there == c.gone || (srv.Uploads() == 0) != c.gone {
				t.Errorf("objects are there: %v, %d uploads", there, srv.Uploads())
			}
		})
	}
}

// TestInterrupt: while the store hangs at any request, an interrupt ends a save, a resume and a copy within two seconds.
func TestInterrupt(t *testing.T) {
	s := scenario{"", 1, Config{Keep: Keep{KeepLastN: 1}}, 3}
	start := s.startObjects(t)
	disk := testStore(t, SingleProcess{}, nil, t.TempDir(), Config{})
	tr := smallTruth(3)
	saved, err := disk.Save(t.Context(), tr.meta(3), tr.whole(false))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for name, f := range map[string]func(ctx context.Context, s *Store) error{
		"save": func(ctx context.Context, s *Store) error {
			_, err := s.Save(ctx, tr.meta(3), tr.whole(false))
			return err
		},
		"resume": func(ctx context.Context, s *Store) error {
			_, err := s.Resume(ctx, "auto", tr.whole(true), LoadOptions{})
			return err
		},
		"resume from tiers": func(ctx context.Context, s *Store) error {
			_, err := ResumeNewest(ctx, []*Store{s, disk}, tr.whole(true))
			return err
		},
		"path of a step": func(ctx context.Context, s *Store) error {
			_, err := StepPath(ctx, []*Store{s}, 2)
			return err
		},
		"copy": func(ctx context.Context, s *Store) error {
			c := disk.StartCopy(context.WithoutCancel(ctx), saved.Path, 3, s)
			<-ctx.Done()
			c.Abort()
			_, err := c.Wait()
			return err
		},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete} {
			for _, from := range []int{1, 2, 5} {
				srv := start.Copy(t)
				srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Hang, From: from, Method: method})
				store := objectStore(t, SingleProcess{}, srv, s.cfg)
				wg.Go(func() {
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(300*time.Millisecond, func() { cancel(errors.New("interrupted")) })
					began := time.Now()
					err := f(ctx, store)
					if took := time.Since(began); took > 2300*time.Millisecond {
						t.Errorf("%s, hanging from %s %d on: ended after %v: %v", name, method, from, took, err)
					}
					if err != nil && strings.Contains(err.Error(), "\n") {
						t.Errorf("%s: several lines: %v", name, err)
					}
				})
			}
		}
	}
	wg.Wait()
}

// TestFilesAtOnce: the files of checkpoints are opened beside one another.
func TestFilesAtOnce(t *testing.T) {
	s := scenario{"", 6, Config{}, 3}
	srv := s.startObjects(t)
	store := objectStore(t, SingleProcess{}, srv, Config{})
	found, err := list(store.fs, store.dir)
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	c, err := open(store.fs, found[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, f := range map[string]func() error{
		"list":   func() error { _, err := list(store.fs, store.dir); return err },
		"commit": func() error { return c.m.verifyFiles(store.fs, found[0].Path) },
	} {
		srv.Slow(20 * time.Millisecond)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		if n := srv.AtOnce(); n < 4 {
			t.Errorf("%s: up to %d requests at a time", name, n)
		}
	}
}

// TestStoreFails: the store stops to answer at each request of a resume. A disk that has an older checkpoint is used, with
// the lost steps if the store had said which it has.
func TestStoreFails(t *testing.T) {
	s := scenario{"", 2, Config{}, 3}
	start := s.startObjects(t)
	disk := t.TempDir()
	tr := smallTruth(7)
	if _, err := testStore(t, SingleProcess{}, nil, disk, Config{}).Save(t.Context(), tr.meta(1), tr.whole(false)); err != nil {
		t.Fatal(err)
	}
	listing, loading := 0, 0
	for n := 1; ; n++ {
		srv := start.Copy(t)
		srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Denied, From: n})
		items := tr.split(2, rand.New(rand.NewPCG(1, 1)), false, true)
		var notices []string
		var step int
		for rank, err := range newWorld(2).run(func(m member) error {
			r, err := ResumeNewest(t.Context(), []*Store{objectStore(t, m, srv, Config{}), testStore(t, m, nil, disk, Config{})}, items[m.rank])
			if m.rank == 0 {
				notices, step = r.Notices, r.Meta.Step
			}
			if err == nil && r.Meta.Step == 1 {
				return tr.same(items[m.rank])
			}
			return err
		}) {
			if err != nil {
				t.Fatalf("request %d, rank %d: %v", n, rank, err)
			}
		}
		if step == 2 {
			break
		}
		if len(notices) == 0 || !strings.Contains(notices[0], "is not available") {
			t.Errorf("request %d: notices are %q", n, notices)
		}
		if len(notices) == 1 { // it failed before it had said which checkpoints are good
			listing++
		} else if loading++; notices[1] != "using step 1 instead of step 2: 1 step is lost and done again" {
			t.Errorf("request %d: notices are %q", n, notices)
		}
	}
	if listing < 3 || loading < 3 {
		t.Errorf("failures of %d requests of the list and %d of the load", listing, loading)
	}
}

// TestNothingGood: the error names what is wrong in each tier.
func TestNothingGood(t *testing.T) {
	out := []string{t.TempDir(), t.TempDir()}
	tr := smallTruth(1)
	var tiers []*Store
	for _, dir := range out {
		s := testStore(t, SingleProcess{}, nil, dir, Config{})
		saved, err := s.Save(t.Context(), tr.meta(1), tr.whole(false))
		if err != nil {
			t.Fatal(err)
		}
		flipFiles(t, saved.Path)
		tiers = append(tiers, s)
	}
	_, err := ResumeNewest(t.Context(), tiers, tr.whole(true))
	if !errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	for _, dir := range out {
		if !strings.Contains(err.Error(), dir) {
			t.Errorf("%s is not in: %v", dir, err)
		}
	}
}

// TestNewerFormat: a checkpoint of a newer version in any tier refuses to resume, on all ranks, as it does without tiers.
func TestNewerFormat(t *testing.T) {
	for _, newer := range []int{0, 1} {
		out := []string{t.TempDir(), t.TempDir()}
		tr := smallTruth(1)
		for i, dir := range out {
			step := 1
			if i == newer {
				step = 2
			}
			saved, err := testStore(t, SingleProcess{}, nil, dir, Config{}).Save(t.Context(), tr.meta(step), tr.whole(false))
			if err != nil {
				t.Fatal(err)
			}
			if i == newer {
				makeNewer(t, disk{}, saved.Path)
			}
		}
		for rank, err := range newWorld(2).run(func(m member) error {
			_, err := ResumeNewest(t.Context(), []*Store{testStore(t, m, nil, out[0], Config{}), testStore(t, m, nil, out[1], Config{})}, tr.whole(true))
			return err
		}) {
			if !errors.Is(err, errNewer) || !strings.Contains(err.Error(), filepath.Join(out[newer], "checkpoints", "step-2")) || !strings.Contains(err.Error(), "try: that version") {
				t.Errorf("tier %d is newer, rank %d: %v", newer, rank, err)
			}
		}
	}
}

// makeNewer gives a checkpoint the next version of the format.
func makeNewer(t *testing.T, fs fileSystem, dir string) {
	t.Helper()
	m, err := verify(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Version = formatVersion + 1
	b, err := m.encode()
	if err == nil {
		err = errors.Join(writeSmall(fs, filepath.Join(dir, manifestName), b), writeSmall(fs, filepath.Join(dir, commitName), commitRecord(m, b)))
	}
	if err != nil {
		t.Fatal(err)
	}
}
