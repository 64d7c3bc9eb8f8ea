package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func unnamed(t testing.TB) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("checkpoints", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "checkpoints")
	t.Cleanup(func() { f.Close() })
	return f
}

// disturbance fails or kills a generation at a call that changes the memory of a host; call 0 is none.
type disturbance struct {
	at      int64
	failure error // of the call; errPower kills the process
	forGood bool  // later calls fail too
}

func (d disturbance) String() string {
	return fmt.Sprintf("%v at call %d, for good: %v", d.failure, d.at, d.forGood)
}

// disturbedFS is the memory of a host with a disturbance. A killed process ends in the way of errPower.
type disturbedFS struct {
	fileSystem
	calls *atomic.Int64
	d     disturbance
}

// call counts a call of f. One in two kills is after it.
func (k disturbedFS) call(f func() error) error {
	n := k.calls.Add(1)
	hit := n == k.d.at || k.d.forGood && k.d.at > 0 && n > k.d.at
	if hit && k.d.failure != errPower {
		return k.d.failure
	}
	if hit && n%2 == 0 {
		panic(errPower)
	}
	err := f()
	if hit {
		panic(errPower)
	}
	return err
}

func (k disturbedFS) MkdirAll(path string) error {
	return k.call(func() error { return k.fileSystem.MkdirAll(path) })
}

func (k disturbedFS) Rename(from, to string) error {
	return k.call(func() error { return k.fileSystem.Rename(from, to) })
}

func (k disturbedFS) RemoveAll(path string) error {
	return k.call(func() error { return k.fileSystem.RemoveAll(path) })
}

func (k disturbedFS) Create(path string) (f file, err error) {
	err = k.call(func() error { f, err = k.fileSystem.Create(path); return err })
	return disturbedFile{f, k}, err
}

type disturbedFile struct {
	file
	k disturbedFS
}

func (f disturbedFile) Truncate(n int64) error {
	return f.k.call(func() error { return f.file.Truncate(n) })
}

func (f disturbedFile) WriteAt(b []byte, at int64) (n int, err error) {
	return n, f.k.call(func() error { n, err = f.file.WriteAt(b, at); return err })
}

// inMemory is a job on hosts of two ranks each, one generation after another.
type inMemory struct {
	t     *testing.T
	hosts []*os.File
	async bool // saves are in the background
	calls atomic.Int64
}

// generation calls f on all ranks with their Store.
func (j *inMemory) generation(d disturbance, f func(m member, s *Store) error) []error {
	j.calls.Store(0)
	return newWorld(2 * len(j.hosts)).run(func(m member) error {
		s, err := NewMemoryStore(j.hosts[m.rank/2], "a-run", m.rank/2*2, m, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		s.chunk, s.epoch, s.cfg.Async = 64, 3, j.async
		s.fs = renaming{disturbedFS{s.host, &j.calls, d}}
		return f(m, s)
	})
}

// items returns the items of all ranks: those of a host hold all, as replicas do, or all hosts together.
func (j *inMemory) items(tr truth, replicas, empty bool) [][]Item {
	rng := rand.New(rand.NewPCG(1, 1))
	if !replicas {
		return tr.split(2*len(j.hosts), rng, true, empty)
	}
	var all [][]Item
	for range j.hosts {
		all = append(all, tr.split(2, rng, true, empty)...)
	}
	return all
}

// save saves a step after resuming, as every generation does.
func (j *inMemory) save(d disturbance, replicas bool, step int) []error {
	tr := smallTruth(uint64(step))
	items, old := j.items(tr, replicas, false), j.items(tr, replicas, true)
	return j.generation(d, func(m member, s *Store) error {
		if _, err := ResumeNewest(j.t.Context(), []*Store{s}, old[m.rank]); err != nil {
			return err
		}
		_, err := saveTo(s, m, tr.meta(step), items[m.rank])
		return err
	})
}

// resumed returns the step that a generation finds, with the bits of its save, 0 for none.
func (j *inMemory) resumed(replicas bool) (step int) {
	j.t.Helper()
	var mu sync.Mutex
	items := j.items(smallTruth(0), replicas, true)
	for rank, err := range j.generation(disturbance{}, func(m member, s *Store) error {
		r, err := ResumeNewest(j.t.Context(), []*Store{s}, items[m.rank])
		if err != nil || r.Path == "" {
			return err
		}
		mu.Lock()
		step = r.Meta.Step
		mu.Unlock()
		return smallTruth(uint64(r.Meta.Step)).same(items[m.rank])
	}) {
		if err != nil {
			j.t.Fatalf("rank %d: %v", rank, err)
		}
	}
	return step
}

// TestKilledInMemory kills a rank at every call of a save in memory, or fails that call, once or from then on: the next
// generation has the save or the one before, never another state, and the memory has two checkpoints and no more.
func TestKilledInMemory(t *testing.T) {
	points := map[error]int{}
	for _, hosts := range []int{1, 2} {
		for _, replicas := range []bool{false, true} {
			for _, async := range []bool{false, true} {
				if raceDetector && (hosts == 1 || replicas || !async) { // slow
					continue
				}
				t.Run(fmt.Sprintf("%d hosts, replicas %v, async %v", hosts, replicas, async), func(t *testing.T) {
					for _, d := range []disturbance{{0, errPower, false}, {0, syscall.ENOSPC, false}, {0, syscall.ENOSPC, true}, {0, syscall.EIO, false}, {0, syscall.EIO, true}} {
						j := &inMemory{t: t, async: async}
						for range hosts {
							j.hosts = append(j.hosts, unnamed(t))
						}
						points[d.failure] += j.disturbed(replicas, d)
					}
				})
			}
		}
	}
	all := 0
	for _, n := range points {
		all += n
	}
	if all < 500 && !raceDetector {
		t.Errorf("only %d points", all)
	}
	t.Logf("points: %v", points)
}

// disturbed disturbs each call of saves of one step after another, until a save has fewer calls. It returns their number.
func (j *inMemory) disturbed(replicas bool, d disturbance) (points int) {
	t := j.t
	t.Helper()
	if j.resumed(replicas) != 0 {
		t.Fatal("something is there before the first save")
	}
	step, most := 1, int64(0)
	if err := errors.Join(j.save(disturbance{}, replicas, step)...); err != nil {
		t.Fatalf("the first save: %v", err)
	}
	for d.at = 1; ; d.at++ {
		errs := j.save(d, replicas, step+1)
		reached := j.calls.Load() >= d.at
		lost := errors.Join(errs...) != nil
		for rank, err := range errs {
			if d.failure != errPower && lost && (err == nil || !strings.Contains(err.Error(), d.failure.Error()) || !strings.HasPrefix(err.Error(), "checkpoint: ")) {
				t.Fatalf("%v: rank %d: %v", d, rank, err)
			}
		}
		got := j.resumed(replicas)
		if got != step+1 && (!lost || got != step) {
			t.Fatalf("%v, in the save of step %d: resumed at %d: %v", d, step+1, got, errs)
		}
		step = got
		most = max(most, j.bytes())
		if !reached {
			break
		}
		points++
	}
	if points < 20 {
		t.Errorf("a save has %d calls", points)
	}
	if limit := 3 * j.bytes(); most > limit {
		t.Errorf("up to %d bytes were in use, now %d", most, j.bytes())
	}
	return points
}

// bytes returns the memory of the first host.
func (j *inMemory) bytes() int64 {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(j.hosts[0].Fd()), &st); err != nil {
		j.t.Fatal(err)
	}
	return st.Blocks * 512
}

// TestTiers: the newest checkpoint of memory and disk that is good on all hosts is used, and what is lost is said.
func TestTiers(t *testing.T) {
	for _, c := range []struct {
		name         string
		memory, disk []int // steps
		damage       func(t *testing.T, dir string, hosts []*os.File)
		want         int
		notice       string
	}{
		{"nothing", nil, nil, nil, 0, ""},
		{"memory", []int{3, 4}, nil, nil, 4, ""},
		{"disk", nil, []int{2}, nil, 2, ""},
		{"memory is newer", []int{3, 4}, []int{2}, nil, 4, ""},
		{"disk is newer", []int{3, 4}, []int{5}, nil, 5, ""},
		{"damaged memory", []int{3, 4}, []int{2}, func(t *testing.T, _ string, hosts []*os.File) { flip(t, hosts[1], 4) }, 3, "using step 3 instead of step 4: 1 step is lost"},
		{"incomplete memory", []int{3, 4}, []int{2}, func(t *testing.T, _ string, hosts []*os.File) { flipIn(t, hosts[1], 4, manifestName) }, 3, "the checkpoint of step 4 in memory is incomplete (COMMIT does not match manifest.json) in that of rank 2\nusing step 3 instead of step 4: 1 step is lost"},
		{"damaged memory, disk between", []int{3, 6}, []int{5}, func(t *testing.T, _ string, hosts []*os.File) { flip(t, hosts[0], 6) }, 5, "using step 5 instead of step 6"},
		{"a host is replaced", []int{3, 4}, []int{2}, func(t *testing.T, _ string, hosts []*os.File) { hosts[1] = unnamed(t) }, 2, "step 4 in memory is not in the memory of all hosts"},
		{"a host returns with another save", []int{3, 4}, []int{2}, func(t *testing.T, _ string, hosts []*os.File) {
			other := &inMemory{t: t, hosts: []*os.File{unnamed(t), unnamed(t)}}
			if err := errors.Join(other.save(disturbance{}, false, 4)...); err != nil {
				t.Fatal(err)
			}
			hosts[1] = other.hosts[1]
		}, 2, "step 4 in memory is not in the memory of all hosts"},
		{"damaged disk", []int{3, 4}, []int{2, 5}, func(t *testing.T, dir string, _ []*os.File) { flipFiles(t, filepath.Join(dir, "step-5")) }, 4, "using step 4 instead of step 5"},
		{"incomplete disk", []int{3, 4}, []int{2, 6}, func(t *testing.T, dir string, _ []*os.File) {
			if err := os.Remove(filepath.Join(dir, "step-6", commitName)); err != nil {
				t.Fatal(err)
			}
		}, 4, "using step 4 instead of step 6: 2 steps are lost"},
		{"nothing good on disk", []int{3, 4}, []int{6}, func(t *testing.T, dir string, _ []*os.File) { flipFiles(t, filepath.Join(dir, "step-6")) }, 4, "using step 4 instead of step 6: 2 steps are lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &inMemory{t: t, hosts: []*os.File{unnamed(t), unnamed(t)}}
			out := t.TempDir()
			for _, step := range c.memory {
				if err := errors.Join(j.save(disturbance{}, false, step)...); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range c.disk {
				tr := smallTruth(uint64(step))
				items := j.items(tr, false, false)
				if err := errors.Join(newWorld(4).run(func(m member) error {
					_, err := testStore(t, m, nil, out, Config{}).Save(t.Context(), tr.meta(step), items[m.rank])
					return err
				})...); err != nil {
					t.Fatal(err)
				}
			}
			if c.damage != nil {
				c.damage(t, filepath.Join(out, "checkpoints"), j.hosts)
			}
			items := j.items(smallTruth(0), false, true)
			if err := errors.Join(j.generation(disturbance{}, func(m member, s *Store) error {
				r, err := ResumeNewest(t.Context(), []*Store{s, testStore(t, m, nil, out, Config{})}, items[m.rank])
				if err != nil {
					return err
				}
				if notices := strings.Join(r.Notices, "\n"); m.rank == 0 && (!strings.Contains(notices, c.notice) || c.notice == "" && notices != "") {
					t.Errorf("notices are %q", r.Notices)
				}
				if r.Meta.Step != c.want || (r.Path == "") != (c.want == 0) {
					t.Errorf("step %d of %q", r.Meta.Step, r.Path)
				}
				if c.want == 0 {
					return nil
				}
				return smallTruth(uint64(c.want)).same(items[m.rank])
			})...); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// flip changes the last byte of each tensor file of a step in memory.
func flip(t *testing.T, memory *os.File, step int) { flipIn(t, memory, step, ".safetensors") }

// flipIn changes the last byte of each file whose name has a suffix.
func flipIn(t *testing.T, memory *os.File, step int, suffix string) {
	m, err := openHostMemory(memory)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := filepath.Join(Memory, stepDir(step))
	names, err := m.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		f, err := m.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := f.Size()
		b := make([]byte, 1)
		f.ReadAt(b, n-1)
		if b[0]++; true {
			_, err = f.WriteAt(b, n-1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewerFormatInMemory: a checkpoint of a newer version in memory refuses to resume, as one on disk does.
func TestNewerFormatInMemory(t *testing.T) {
	j := &inMemory{t: t, hosts: []*os.File{unnamed(t), unnamed(t)}}
	if err := errors.Join(j.save(disturbance{}, false, 4)...); err != nil {
		t.Fatal(err)
	}
	memory, err := openHostMemory(j.hosts[1])
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	makeNewer(t, memory, join(Memory, stepDir(4)))
	items := j.items(smallTruth(0), false, true)
	for rank, err := range j.generation(disturbance{}, func(m member, s *Store) error {
		_, err := ResumeNewest(t.Context(), []*Store{s}, items[m.rank])
		return err
	}) {
		if !errors.Is(err, errNewer) || !strings.Contains(err.Error(), "memory/step-4") || !strings.Contains(err.Error(), "try: that version") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// TestTornIndex: an index that was written in part, at any byte, or damaged, leaves the one before.
func TestTornIndex(t *testing.T) {
	f := unnamed(t)
	m, err := openHostMemory(f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.MkdirAll("a/b"); err != nil {
		t.Fatal(err)
	}
	read := func(area int64) []byte {
		b := make([]byte, 4096)
		n, _ := f.ReadAt(b, area*areaBytes)
		return b[:n]
	}
	older := read(0)
	if err := m.MkdirAll("a/c"); err != nil {
		t.Fatal(err)
	}
	whole := read(0)
	if bytes.Equal(whole, older) { // the first index is in the other area
		t.Fatal("the index is not written to two areas in turn")
	}
	names := func() string {
		got, err := m.ReadDir("a")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, " ")
	}
	for n := range bytes.TrimRight(whole, "\x00") {
		torn := append(append([]byte(nil), whole[:n]...), make([]byte, len(whole)-n)...)
		if _, err := f.WriteAt(torn, 0); err != nil {
			t.Fatal(err)
		}
		if got := names(); got != "b" {
			t.Fatalf("with %d bytes of the index: %s", n, got)
		}
		damaged := bytes.Clone(whole)
		damaged[n] ^= 0x10
		if _, err := f.WriteAt(damaged, 0); err != nil {
			t.Fatal(err)
		}
		if got := names(); got != "b" {
			t.Fatalf("with a damaged byte %d: %s", n, got)
		}
	}
	if _, err := f.WriteAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "b c" {
		t.Errorf("whole: %s", got)
	}
}

// TestHostMemoryFiles: the file system does what that of a disk does.
func TestHostMemoryFiles(t *testing.T) {
	memory, err := openHostMemory(unnamed(t))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	var logs [2]string
	for i, fs := range []fileSystem{memory, disk{}} {
		root := "root"
		if i == 1 {
			root = filepath.Join(t.TempDir(), "root")
		}
		log := func(format string, args ...any) { logs[i] += fmt.Sprintf(format, args...) + "\n" }
		kind := func(err error) string {
			for _, e := range []error{syscall.ENOENT, syscall.EISDIR, syscall.ENOTDIR, errNoFile} {
				if errors.Is(err, e) {
					return e.Error()
				}
			}
			return fmt.Sprint(err)
		}
		at := func(name string) string { return filepath.Join(root, name) }
		write := func(name, text string) {
			err := writeFile(fs, at(name), int64(len(text)), false, func(f file) error { return writeAt(f, []byte(text), 0, name) })
			log("write %s: %s", name, kind(errors.Unwrap(err)))
		}
		read := func(name string) {
			f, err := fs.Open(at(name))
			if err != nil {
				log("open %s: %s", name, kind(err))
				return
			}
			n, err := f.Size()
			b := make([]byte, n+2)
			got, end := f.ReadAt(b, 0)
			part, partly := f.ReadAt(b[:1], n)
			log("read %s: %d %v %q %v, %d %v", name, n, err, b[:got], end, part, partly)
			f.Close()
		}
		list := func(name string) {
			names, err := fs.ReadDir(at(name))
			log("list %s: %d %s", name, len(names), kind(err))
		}
		list("")
		log("mkdir %v", fs.MkdirAll(at("a/b")))
		write("none/x", "1")
		write("a/b/x", "first")
		write("a/b/x", "2")
		write("a/y", "third")
		read("a/b/x")
		read("a/y")
		read("a")
		read("a/z")
		list("a")
		log("rename %v", fs.Rename(at("a"), at("c")))
		read("a/y")
		read("c/b/x")
		log("rename %s", kind(fs.Rename(at("a"), at("d"))))
		log("remove %v %v", fs.RemoveAll(at("c/b")), fs.RemoveAll(at("none")))
		list("c")
		write("c/new", strings.Repeat("n", 5000))
		read("c/y")
		_, err := fs.Modified(at("c/none"))
		log("modified %s", kind(err))
		log("mkdir %s", kind(fs.MkdirAll(at("c/y/z"))))
	}
	if logs[0] != logs[1] {
		t.Errorf("memory:\n%s\ndisk:\n%s", logs[0], logs[1])
	}
}
