package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"trireme/tensor"
)

// A small state, so that every point of a save can be tested.
func smallTruth(seed uint64) truth {
	shape := tensor.Shape{5, 7}
	return truth{seed, []Tensor{{Param, "w", tensor.F32, shape}, {"exp_avg", "w", tensor.F32, shape}, {Param, "b", tensor.BF16, tensor.Shape{3}}}}
}

// scenario is a save into a directory with checkpoints.
type scenario struct {
	name  string
	ranks int
	cfg   Config
	step  int // of the save under test; steps 1 and 2 exist
}

// saveWith saves as cfg says: in the background, the items are overwritten as soon as they may be, and ranks vote as they do
// after steps.
func saveWith(t testing.TB, m ProcessGroup, fs fileSystem, dir string, cfg Config, meta Meta, items []Item) (SaveResult, error) {
	return saveTo(testStore(t, m, fs, dir, cfg), m, meta, items)
}

func saveTo(s *Store, m ProcessGroup, meta Meta, items []Item) (SaveResult, error) {
	ctx, cfg := context.Background(), s.cfg
	if !cfg.Async {
		return s.Save(ctx, meta, items)
	}
	v, err := s.Start(ctx, meta, items, make([]byte, cfg.AsyncMemory))
	if err != nil {
		return SaveResult{}, err
	}
	defer v.Abort()
	v.Hold()
	for _, it := range items {
		for i, b := range tensor.HostBytes(it.Data) {
			tensor.HostBytes(it.Data)[i] = ^b
		}
	}
	for {
		all, err := m.AllGatherBytes(ctx, fmt.Append(nil, v.Votes()))
		if err != nil {
			return SaveResult{}, err
		}
		sum := 0
		for _, b := range all {
			n, err := strconv.Atoi(string(b))
			if err != nil {
				return SaveResult{}, err
			}
			sum += n
		}
		if sum < m.Size() {
			runtime.Gosched()
			continue
		}
		if saved, ended, err := v.Next(ctx, false); ended {
			return saved, err
		}
	}
}

// stride is the distance of the calls of a save at which faults are injected. FULL_MATRIX=1 has all calls; usually scenarios
// begin at different ones, by their position in the list.
func stride(usual int) int {
	switch {
	case os.Getenv("FULL_MATRIX") == "1":
		return 1
	case raceDetector:
		return 3 * usual
	}
	return usual
}

func scenarios() []scenario {
	var all []scenario
	for _, kind := range []string{Sharded, Full} {
		for _, ranks := range []int{1, 3} {
			all = append(all,
				scenario{"another step", ranks, Config{StateDictType: kind}, 3},
				scenario{"the same step", ranks, Config{StateDictType: kind}, 2},
				scenario{"keep one", ranks, Config{StateDictType: kind, Keep: Keep{KeepLastN: 1}}, 3},
				scenario{"background", ranks, Config{StateDictType: kind, Async: true, AsyncMemory: 1 << 20}, 3},
				scenario{"background, the same step", ranks, Config{StateDictType: kind, Async: true, AsyncMemory: 100}, 2},
				scenario{"background, keep one, no memory", ranks, Config{StateDictType: kind, Async: true, Keep: Keep{KeepLastN: 1}}, 3},
			)
		}
	}
	return all
}

// Seeds of the states of step 2 (step 1 has one less) and of the save under test.
const (
	before = 100
	after  = 200
)

func (s scenario) start(t *testing.T) *faultFS {
	fs := newFaultFS()
	for step := 1; step <= 2; step++ {
		for _, err := range s.save(t, fs, step, before-2+uint64(step)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return fs.afterPowerLoss(nil, keepAll)
}

func (s scenario) save(t *testing.T, fs *faultFS, step int, seed uint64) []error {
	tr := smallTruth(seed)
	items := tr.split(s.ranks, rand.New(rand.NewPCG(1, 1)), true, false)
	return newWorld(s.ranks).run(func(m member) error {
		_, err := saveWith(t, m, fs, "out", s.cfg, tr.meta(step), items[m.rank])
		return err
	})
}

// holds loads the newest checkpoint and returns its seed.
func holds(t *testing.T, fs *faultFS) (seed uint64, err error) {
	return holdsIn(t, testStore(t, SingleProcess{}, fs, "out", Config{}))
}

func holdsIn(t *testing.T, s *Store) (seed uint64, err error) {
	tr := smallTruth(0)
	items := tr.whole(true)
	r, err := s.Resume(t.Context(), "auto", items, LoadOptions{})
	if err != nil {
		return 0, err
	}
	if r.Path == "" {
		return 0, errors.New("there is no checkpoint")
	}
	if _, err := fmt.Sscanf(string(r.Meta.State), `{"seed":%d}`, &tr.seed); err != nil {
		return 0, err
	}
	return tr.seed, tr.same(items)
}

// TestPowerLossAnywhere cuts power before and after every call of a save, with unsynced changes
// lost, kept or mixed, then resumes and cuts power again.
func TestPowerLossAnywhere(t *testing.T) {
	var points atomic.Int64
	t.Cleanup(func() { t.Logf("%d points", points.Load()) })
	for i, s := range scenarios() {
		t.Run(fmt.Sprintf("%s %s %d ranks", s.name, s.cfg.StateDictType, s.ranks), func(t *testing.T) {
			t.Parallel()
			start := s.start(t)
			rng := rand.New(rand.NewPCG(5, 5))
			variants := 6
			if raceDetector {
				variants = 3
			}
			for n, cut := 1+i%stride(4), true; cut; n += stride(4) {
				for _, end := range []bool{false, true} {
					fs := start.afterPowerLoss(nil, keepAll)
					fs.powerAt, fs.powerEnd = n, end
					errs := s.save(t, fs, s.step, after)
					saved := true // some rank returned success
					for _, err := range errs {
						saved = saved && err == nil
					}
					cut = fs.dead
					for v := range variants {
						disk := fs.afterPowerLoss(rng, min(v, loseSome))
						s.survives(t, disk, rng, saved, fmt.Sprintf("power gone at call %d (after it: %v), variant %d", n, end, v))
						points.Add(1)
					}
				}
			}
		})
	}
}

func (s scenario) survives(t *testing.T, disk *faultFS, rng *rand.Rand, saved bool, what string) {
	t.Helper()
	seed, err := holds(t, disk)
	if err != nil || seed != before && seed != after || saved && seed != after {
		t.Fatalf("%s: loads %d: %v; on disk:\n%s", what, seed, err, disk.tree())
	}
	found, err := list(disk, "out/checkpoints")
	for _, f := range found {
		if err = errors.Join(err, f.Err); err != nil {
			t.Fatalf("%s: %s is incomplete: %v; on disk:\n%s", what, f.Path, err, disk.tree())
		}
	}
	// Resume, save, and cut power again.
	const again = 300
	disk.powerAt, disk.powerEnd = disk.calls+1+rng.IntN(60), rng.IntN(2) == 0
	s.save(t, disk, s.step, again)
	disk = disk.afterPowerLoss(rng, loseSome)
	next, err := holds(t, disk)
	if err != nil || next != seed && next != again && !(seed == before && next == after) {
		t.Fatalf("%s, and again: loads %d after %d: %v; on disk:\n%s", what, next, seed, err, disk.tree())
	}
	// A third, undisturbed save leaves no other files.
	for _, err := range s.save(t, disk, s.step+1, again+1) {
		if err != nil {
			t.Fatalf("%s, and again: the next save: %v; on disk:\n%s", what, err, disk.tree())
		}
	}
	if next, err := holds(t, disk); err != nil || next != again+1 || strings.Contains(disk.tree(), "/"+tempPrefix) || strings.Contains(disk.tree(), "/"+replacedPrefix) {
		t.Fatalf("%s, and again: in the end loads %d: %v; on disk:\n%s", what, next, err, disk.tree())
	}
}

// TestFirstSaveIsDurable: the directories are new as well.
func TestFirstSaveIsDurable(t *testing.T) {
	fs := newFaultFS()
	if _, err := saveAlone(t, fs, "out", Config{}, smallTruth(after), 1); err != nil {
		t.Fatal(err)
	}
	disk := fs.afterPowerLoss(nil, loseAll)
	if seed, err := holds(t, disk); err != nil || seed != after {
		t.Fatalf("loads %d: %v; on disk:\n%s", seed, err, disk.tree())
	}
}

// willing creates the directories of files.
type willing struct{ *faultFS }

func (w willing) Create(path string) (file, error) {
	if err := w.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return w.faultFS.Create(path)
}

// TestRanksOnDifferentDisks: rank 0 must not commit files it cannot see.
func TestRanksOnDifferentDisks(t *testing.T) {
	tr := smallTruth(1)
	for _, other := range []fileSystem{newFaultFS(), willing{newFaultFS()}} {
		disks := []fileSystem{newFaultFS(), other}
		for _, err := range newWorld(2).run(func(m member) error {
			items := tr.whole(false)
			s := testStore(t, m, disks[m.rank], "out", Config{})
			_, err := s.Save(t.Context(), tr.meta(1), []Item{items[m.rank], items[2]})
			return err
		}) {
			if err == nil || !strings.Contains(err.Error(), sameDirectory) {
				t.Fatalf("the error is %v", err)
			}
		}
	}
}

// TestEveryCallFails fails each call of a save, once and from then on.
func TestEveryCallFails(t *testing.T) {
	var points atomic.Int64
	t.Cleanup(func() { t.Logf("%d points", points.Load()) })
	for i, s := range scenarios() {
		t.Run(fmt.Sprintf("%s %s %d ranks", s.name, s.cfg.StateDictType, s.ranks), func(t *testing.T) {
			t.Parallel()
			start := s.start(t)
			for n, reached := 1+i%stride(2), true; reached; n += stride(2) {
				for _, forGood := range []bool{false, true} {
					fs := start.afterPowerLoss(nil, keepAll)
					fs.failAt, fs.forGood, fs.failure = n, forGood, errInjected
					errs := s.save(t, fs, s.step, after)
					reached = fs.calls >= n
					failed := errs[0] != nil
					for _, err := range errs {
						if (err != nil) != failed || failed && !strings.Contains(err.Error(), errInjected.Error()) || failed && !strings.HasPrefix(err.Error(), "checkpoint: ") {
							t.Fatalf("call %d: errors are %v", n, errs)
						}
					}
					if fs.open != 0 {
						t.Fatalf("call %d: %d files are open", n, fs.open)
					}
					fs.failAt = 0
					seed, err := holds(t, fs)
					if err != nil || seed != before && seed != after || !failed && seed != after {
						t.Fatalf("call %d (save: %v): loads %d: %v; on disk:\n%s", n, errs[0], seed, err, fs.tree())
					}
					if failed && !forGood && strings.Contains(fs.tree(), "/"+tempPrefix) {
						t.Fatalf("call %d: left behind:\n%s", n, fs.tree())
					}
					for _, err := range s.save(t, fs, s.step, after+1) {
						if err != nil {
							t.Fatalf("call %d: the next save: %v", n, err)
						}
					}
					if seed, err := holds(t, fs); err != nil || seed != after+1 {
						t.Fatalf("call %d: after the next save loads %d: %v", n, seed, err)
					}
					points.Add(1)
				}
			}
		})
	}
}

// TestFullDisk fails every write from the n-th on with ENOSPC.
func TestFullDisk(t *testing.T) {
	t.Run("foreground", func(t *testing.T) { fullDisk(t, scenario{"", 3, Config{}, 3}) })
	t.Run("background", func(t *testing.T) { fullDisk(t, scenario{"", 3, Config{Async: true, AsyncMemory: 200}, 3}) })
}

func fullDisk(t *testing.T, s scenario) {
	start := s.start(t)
	full := 0
	for n := 1; n < 100; n++ {
		fs := start.afterPowerLoss(nil, keepAll)
		fs.failAt, fs.forGood, fs.failure, fs.failing = n, true, syscall.ENOSPC, "write truncate create mkdir sync"
		errs := s.save(t, fs, s.step, after)
		for _, err := range errs {
			if (err != nil) != (errs[0] != nil) || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("call %d: errors are %v", n, errs)
			}
		}
		if errs[0] == nil {
			continue
		}
		full++
		fs.failAt = 0
		if seed, err := holds(t, fs); err != nil || seed != before && seed != after {
			t.Fatalf("call %d: loads %d: %v", n, seed, err)
		}
		if strings.Contains(fs.tree(), "/"+tempPrefix) {
			t.Fatalf("call %d: left behind:\n%s", n, fs.tree())
		}
	}
	if full < 20 {
		t.Fatalf("only %d saves hit a full disk", full)
	}
}

// TestFullDiskForReal fills a small file system.
func TestFullDiskForReal(t *testing.T) {
	dir := t.TempDir()
	if err := mountTmpfs(dir, "size=256k"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	defer unmount(dir)
	if _, err := saveAlone(t, nil, dir, Config{}, smallTruth(1), 1); err != nil {
		t.Fatal(err)
	}
	big := truth{1, []Tensor{{Param, "w", tensor.F32, tensor.Shape{100_000}}}}
	_, err := saveAlone(t, nil, dir, Config{}, big, 2)
	if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("the error is %v", err)
	}
	names, _ := os.ReadDir(filepath.Join(dir, "checkpoints"))
	path, notices, err := Latest(filepath.Join(dir, "checkpoints"), "")
	if len(names) != 1 || filepath.Base(path) != "step-1" || len(notices) > 0 || err != nil {
		t.Fatal(names, path, notices, err)
	}
}

// exactOrRefused loads a checkpoint with a changed file and expects the exact state or an error.
func exactOrRefused(t *testing.T, fs *faultFS, what string) (refused bool) {
	t.Helper()
	seed, err := holds(t, fs)
	switch {
	case err == nil && seed != before:
		t.Fatalf("%s: loads %d", what, seed)
	case err != nil && !errors.Is(err, ErrCorrupt):
		t.Fatalf("%s: the error is %v", what, err)
	}
	return err != nil
}

func TestEveryBitAndEveryLength(t *testing.T) {
	if raceDetector {
		t.Skip("one goroutine's work, and slow under the race detector")
	}
	for _, kind := range []string{Sharded, Full} {
		fs := newFaultFS()
		s := scenario{"", 2, Config{StateDictType: kind}, 1}
		for _, err := range s.save(t, fs, 1, before) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for name, f := range fs.find("out/checkpoints/step-1").entries {
			data := f.data
			for i := range data {
				for bit := range 8 {
					data[i] ^= 1 << bit
					if !exactOrRefused(t, fs, fmt.Sprintf("%s: bit %d of byte %d", name, bit, i)) {
						t.Fatalf("%s: bit %d of byte %d: the change was not detected", name, bit, i)
					}
					data[i] ^= 1 << bit
				}
			}
			for n := range data {
				f.data = data[:n:n]
				if !exactOrRefused(t, fs, fmt.Sprintf("%s cut to %d", name, n)) {
					t.Fatalf("%s truncated to %d was loaded", name, n)
				}
			}
			f.data = append(data[:len(data):len(data)], 0)
			if !exactOrRefused(t, fs, name+" with a tail") {
				t.Fatalf("%s with a tail was loaded", name)
			}
			f.data = data
		}
		if exactOrRefused(t, fs, "undamaged") {
			t.Fatal("the undamaged checkpoint was refused")
		}
	}
}

// TestDamagedNewestFallsBack: damage that only a chunk's CRC shows is found while loading.
func TestDamagedNewestFallsBack(t *testing.T) {
	s := scenario{"", 3, Config{}, 3}
	fs := s.start(t)
	for _, err := range s.save(t, fs, 3, after) {
		if err != nil {
			t.Fatal(err)
		}
	}
	f := fs.find("out/checkpoints/step-3/" + rankFile(0))
	f.data[len(f.data)-1] ^= 1
	tr := smallTruth(before)
	items := tr.split(3, rand.New(rand.NewPCG(1, 1)), false, true)
	for rank, err := range newWorld(3).run(func(m member) error {
		r, err := testStore(t, m, fs, "out", Config{}).Resume(t.Context(), "auto", items[m.rank], LoadOptions{})
		if err == nil && r.Meta.Step != 2 {
			err = fmt.Errorf("resumed %v", r)
		}
		if err == nil && m.rank == 0 && (len(r.Notices) != 2 || !strings.Contains(r.Notices[0], "step-3 cannot be used") || !strings.Contains(r.Notices[0], rankFile(0)) || r.Notices[1] != "using step 2 instead of step 3: 1 step is lost and done again") {
			err = fmt.Errorf("notices are %q", r.Notices)
		}
		return errors.Join(err, tr.same(items[m.rank]))
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	// Requested by path, it fails.
	_, err := testStore(t, SingleProcess{}, fs, "out", Config{}).Resume(t.Context(), "out/checkpoints/step-3", tr.whole(true), LoadOptions{})
	if !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// TestUnreadable fails each call of a resume once, as a bad sector and a deleted file do: the bits are those of the newest
// checkpoint or, with a notice of the lost step, of the one before; or all ranks fail.
func TestUnreadable(t *testing.T) {
	for _, ranks := range []int{1, 3} {
		s := scenario{"", ranks, Config{}, 3}
		start := s.start(t)
		if err := errors.Join(s.save(t, start, 3, after)...); err != nil {
			t.Fatal(err)
		}
		tr := smallTruth(0)
		older, refused := 0, 0
		for n := 2; ; n++ {
			fs := start.afterPowerLoss(nil, keepAll)
			fs.failAt, fs.failure = n/2, syscall.EIO
			if n%2 == 1 {
				fs.failure, fs.failing = syscall.ENOENT, "open"
			}
			items := tr.split(ranks, rand.New(rand.NewPCG(1, 1)), false, true)
			results := make([]ResumeResult, ranks)
			errs := newWorld(ranks).run(func(m member) (err error) {
				results[m.rank], err = testStore(t, m, fs, "out", Config{}).Resume(t.Context(), "auto", items[m.rank], LoadOptions{})
				return err
			})
			if fs.calls < n/2 {
				break
			}
			for rank, r := range results {
				if (errs[rank] == nil) != (errs[0] == nil) || r.Meta.Step != results[0].Meta.Step {
					t.Fatalf("call %d: the ranks differ: %v, %v", n, errs, results)
				}
				if errs[rank] != nil {
					continue
				}
				var got truth
				if _, err := fmt.Sscanf(string(r.Meta.State), `{"seed":%d}`, &got.seed); err != nil {
					t.Fatal(err)
				}
				if got = smallTruth(got.seed); got.same(items[rank]) != nil {
					t.Fatalf("call %d: rank %d has other bits than step %d", n, rank, r.Meta.Step)
				}
			}
			switch r := results[0]; {
			case errs[0] != nil:
				if refused++; strings.Contains(errs[0].Error(), "\n") {
					t.Errorf("call %d: several lines: %v", n, errs[0])
				}
			case r.Meta.Step == 2:
				if older++; r.Notices[len(r.Notices)-1] != "using step 2 instead of step 3: 1 step is lost and done again" || len(r.Notices) < 2 {
					t.Errorf("call %d: notices are %q", n, r.Notices)
				}
			case r.Meta.Step != 3 || len(r.Notices) > 0:
				t.Errorf("call %d: step %d, notices are %q", n, r.Meta.Step, r.Notices)
			}
		}
		t.Logf("%d ranks: %d calls led to the older checkpoint, %d to an error", ranks, older, refused)
		if older < 5 {
			t.Errorf("%d ranks: only %d calls led to the older checkpoint", ranks, older)
		}
	}
}

// Go minimizes its long inputs for a minute each without -fuzzminimizetime 10x.
func FuzzManifest(f *testing.F) {
	fs := newFaultFS()
	if _, err := saveAlone(f, fs, "out", Config{}, smallTruth(1), 1); err != nil {
		f.Fatal(err)
	}
	f.Add(fs.find("out/checkpoints/step-1/" + manifestName).data)
	for _, dir := range olderFormats {
		b, err := os.ReadFile(filepath.Join(dir, manifestName))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("error of several lines: %q", err)
			}
			return
		}
		for _, x := range m.Tensors {
			const most = 1 << 16 // elements checked individually
			seen := make([]bool, min(most, x.Shape.Elems()))
			total := 0
			for _, p := range x.Pieces {
				n := 0
				for _, b := range p.boxes(x.Shape) {
					if n += b.Elems(); !b.In(x.Shape) || len(seen) == most {
						continue
					}
					for run := range b.Runs(b, tensor.FullBox(x.Shape)) {
						for i := range run.N {
							if seen[run.Y+i] {
								t.Fatalf("%s: element %d is stored twice", x.key(), run.Y+i)
							}
							seen[run.Y+i] = true
						}
					}
				}
				if n != p.elems() || p.Offset < 8 || p.Offset+int64(n*x.DType.Size()) > m.Files[p.File].Size {
					t.Fatalf("%s: piece %+v", x.key(), p)
				}
				total += n
			}
			if total != x.Shape.Elems() {
				t.Fatalf("%s: %d of %v", x.key(), total, x.Shape)
			}
		}
	})
}
