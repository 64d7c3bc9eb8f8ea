package checkpoint

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trireme/internal/conf"
	"trireme/tensor"
)

// slowFS waits for a token before each write of a data file, so that a save goes on while steps run.
type slowFS struct {
	*faultFS
	tokens chan struct{}
}

type slowFile struct {
	file
	tokens chan struct{}
}

func (x slowFS) Create(path string) (file, error) {
	f, err := x.faultFS.Create(path)
	if err != nil || !strings.HasSuffix(path, ".safetensors") {
		return f, err
	}
	return slowFile{f, x.tokens}, nil
}

func (f slowFile) WriteAt(b []byte, off int64) (int, error) {
	<-f.tokens
	return f.file.WriteAt(b, off)
}

// files returns the contents of a directory.
func files(x *faultFS, dir string) map[string]string {
	out := map[string]string{}
	if n := x.find(dir); n != nil {
		for name, f := range n.entries {
			out[name] = string(f.data)
		}
	}
	return out
}

// TestBackgroundIsEqual: a checkpoint that is written beside later steps has the bytes of one that is written before
// them, whatever memory the copy has and wherever the items are.
func TestBackgroundIsEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		ranks := rapid.IntRange(1, 4).Draw(rt, "ranks")
		cfg := Config{StateDictType: rapid.SampledFrom([]string{Sharded, Full}).Draw(rt, "type")}
		memory := rapid.SampledFrom([]conf.Bytes{0, 64, 300, 1 << 20}).Draw(rt, "memory")
		early := rapid.IntRange(0, 30).Draw(rt, "writes before the first update")
		tr := newTruth(seed)
		items := func() [][]Item { return tr.split(ranks, rand.New(rand.NewPCG(seed, 1)), true, false) }
		want, got := newFaultFS(), newFaultFS()
		have := items()
		for _, err := range newWorld(ranks).run(func(m member) error {
			_, err := testStore(t, m, want, "out", cfg).Save(t.Context(), tr.meta(7), have[m.rank])
			return err
		}) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		have = items()
		slow := slowFS{got, make(chan struct{})}
		stop := make(chan struct{})
		var feeding sync.WaitGroup
		feeding.Go(func() {
			for n := 0; ; n++ {
				if n > early {
					time.Sleep(10 * time.Microsecond)
				}
				select {
				case slow.tokens <- struct{}{}:
				case <-stop:
					return
				}
			}
		})
		cfg.Async, cfg.AsyncMemory = true, memory
		for _, err := range newWorld(ranks).run(func(m member) error {
			saved, err := saveWith(t, m, slow, "out", cfg, tr.meta(7), have[m.rank])
			if err == nil && (saved.Bytes == 0 || saved.Written.End.Before(saved.Written.Began)) {
				err = fmt.Errorf("saved %+v", saved)
			}
			return err
		}) {
			if err != nil {
				rt.Error(err)
			}
		}
		close(stop)
		feeding.Wait()
		a, b := files(want, "out/checkpoints/step-7"), files(got, "out/checkpoints/step-7")
		if len(a) != len(b) || len(a) < 3 {
			rt.Fatalf("%d files, in the background %d", len(a), len(b))
		}
		for name := range a {
			if a[name] != b[name] {
				rt.Errorf("%s differs", name)
			}
		}
	})
}

// TestHoldWaits: with no memory an update waits for the file, with enough it does not.
func TestHoldWaits(t *testing.T) {
	tr := newTruth(1)
	for _, c := range []struct {
		memory int
		waits  bool
	}{{0, true}, {64, true}, {1 << 20, false}} {
		slow := slowFS{newFaultFS(), make(chan struct{})}
		v, err := testStore(t, SingleProcess{}, slow, "out", Config{}).Start(t.Context(), tr.meta(1), tr.whole(false), make([]byte, c.memory))
		if err != nil {
			t.Fatal(err)
		}
		held := make(chan struct{})
		go func() { v.Hold(); close(held) }()
		if !c.waits {
			<-held // no write has been allowed
		} else {
			select {
			case <-held:
				t.Errorf("%d bytes: the update did not wait", c.memory)
			case <-time.After(20 * time.Millisecond):
			}
		}
		if v.Votes() != 0 {
			t.Error("a save that has not written votes")
		}
		close(slow.tokens)
		<-held
		if saved, err := v.Wait(t.Context()); err != nil || saved.Bytes == 0 {
			t.Fatal(saved, err)
		}
	}
}

// TestBackgroundFailure: the ranks that still write stop, and all report the failure of the first.
func TestBackgroundFailure(t *testing.T) {
	tr := newTruth(1)
	shared := newFaultFS()
	tokens := make(chan struct{})
	go func() { // other ranks write for long
		for range 5 {
			tokens <- struct{}{}
		}
		time.Sleep(50 * time.Millisecond)
		close(tokens)
	}()
	errs := newWorld(3).run(func(m member) error {
		var fs fileSystem = slowFS{shared, tokens}
		if m.rank == 1 {
			fs = failing{shared}
		}
		items := tr.split(3, rand.New(rand.NewPCG(3, 3)), false, false)
		_, err := saveWith(t, m, fs, "out", Config{Async: true, AsyncMemory: 1 << 20}, tr.meta(1), items[m.rank])
		return err
	})
	for rank, err := range errs {
		if err == nil || err.Error() != errs[0].Error() || !strings.Contains(err.Error(), errInjected.Error()+" (on rank 1)") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if len(files(shared, "out/checkpoints")) > 0 {
		t.Errorf("left behind:\n%s", shared.tree())
	}
}

// failing fails to write data.
type failing struct{ *faultFS }

type failingFile struct{ file }

func (x failing) Create(path string) (file, error) {
	f, err := x.faultFS.Create(path)
	return failingFile{f}, err
}

func (failingFile) WriteAt([]byte, int64) (int, error) { return 0, errInjected }

// deviceMemory is memory that only the goroutine of a rank may read.
type deviceMemory struct {
	tensor.Memory
	mu   sync.Mutex
	host map[*tensor.Buffer][]byte
}

func (d *deviceMemory) Download(dst []byte, src *tensor.Tensor) {
	if !d.mu.TryLock() {
		panic("two goroutines use the device")
	}
	defer d.mu.Unlock()
	at := src.Offset() * src.DType().Size()
	copy(dst, d.host[src.Buffer()][at:at+len(dst)])
}

func (d *deviceMemory) Sync() {}

// TestBackgroundFromDevice: Hold copies the memory of a device, in the goroutine of the rank or while that waits.
func TestBackgroundFromDevice(t *testing.T) {
	tr := newTruth(5)
	want := newFaultFS()
	if _, err := saveAlone(t, want, "out", Config{}, tr, 1); err != nil {
		t.Fatal(err)
	}
	for _, memory := range []int{0, 200, 1 << 20} {
		d := &deviceMemory{host: map[*tensor.Buffer][]byte{}}
		items := tr.whole(false)
		for i, it := range items {
			size := it.Box.Elems() * it.DType.Size()
			buf := tensor.NewBuffer(nil, size, tensor.Params, nil)
			d.host[buf] = bytes.Clone(tensor.HostBytes(it.Data))
			items[i].Data = tensor.Of(buf, it.DType, 0, it.Box.Elems())
		}
		fs := newFaultFS()
		s := testStore(t, SingleProcess{}, fs, "out", Config{})
		s.memory.device = d
		v, err := s.Start(t.Context(), tr.meta(1), items, make([]byte, memory))
		if err != nil {
			t.Fatal(err)
		}
		v.Hold()
		d.mu.Lock() // the device computes
		for _, b := range d.host {
			clear(b)
		}
		if _, err := v.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, b := files(want, "out/checkpoints/step-1"), files(fs, "out/checkpoints/step-1")
		for name := range a {
			if a[name] != b[name] {
				t.Errorf("%d bytes: %s differs", memory, name)
			}
		}
	}
}

// TestHoldBehind: the writer may pass the first copied chunk between two copies; then nothing is left to copy.
func TestHoldBehind(t *testing.T) {
	w := &writer{chunks: make([]chunk, 4), back: 3}
	w.moved.L = &w.mu
	for range w.chunks {
		w.next()
	}
	buf := make([]byte, 16)
	if more, err := w.holdOne(&buf); more || err != nil {
		t.Errorf("a chunk that was written is copied: %t, %v", more, err)
	}
}
