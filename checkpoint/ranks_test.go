package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"trireme/tensor"
)

// world is ranks as goroutines.
type world struct {
	mu       sync.Mutex
	cond     *sync.Cond
	size     int
	round    int
	arrived  int
	messages [][]byte
	last     [][]byte
	dead     bool
}

func newWorld(n int) *world {
	w := &world{size: n, messages: make([][]byte, n)}
	w.cond = sync.NewCond(&w.mu)
	return w
}

type member struct {
	*world
	rank int
}

var _ ProcessGroup = member{}

func (m member) Rank() int { return m.rank }
func (m member) Size() int { return m.size }

func (m member) AllGatherBytes(_ context.Context, b []byte) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, errors.New("a peer is gone")
	}
	m.messages[m.rank] = b
	if m.arrived++; m.arrived == m.size {
		m.last, m.messages = m.messages, make([][]byte, m.size)
		m.arrived = 0
		m.round++
		m.cond.Broadcast()
		return m.last, nil
	}
	for round := m.round; round == m.round; {
		if m.dead {
			return nil, errors.New("a peer is gone")
		}
		m.cond.Wait()
	}
	return m.last, nil
}

// run calls f on every rank concurrently and returns the results. A rank that panics with errPower
// is gone, and the others get an error.
func (w *world) run(f func(m member) error) []error {
	errs := make([]error, w.size)
	var wg sync.WaitGroup
	for rank := range w.size {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					if r != errPower {
						panic(r)
					}
					errs[rank] = errPower
					w.mu.Lock()
					w.dead = true
					w.cond.Broadcast()
					w.mu.Unlock()
				}
			}()
			errs[rank] = f(member{w, rank})
		})
	}
	wg.Wait()
	return errs
}

var errPower = errors.New("the power is gone")

// truth is a state whose bytes are a function of seed, tensor and index.
type truth struct {
	seed    uint64
	tensors []Tensor
}

func newTruth(seed uint64) truth {
	var ts []Tensor
	for i, shape := range []tensor.Shape{{7, 5}, {64}, {1}, {}, {0, 3}, {33, 3, 2}} {
		name := fmt.Sprintf("layers.%d.weight", i)
		ts = append(ts, Tensor{Param, name, tensor.F32, shape}, Tensor{"exp_avg", name, tensor.BF16, shape}, Tensor{"counter", name, tensor.I64, shape})
	}
	return truth{seed, ts}
}

// bytes returns a box of tensor i.
func (tr truth) bytes(i int, box tensor.Box) []byte {
	t := tr.tensors[i]
	size := t.DType.Size()
	var b []byte
	for e := range t.Shape.Elems() {
		in, rest := true, e
		for d := len(t.Shape) - 1; d >= 0; d-- {
			at := rest%t.Shape[d] - box.Offsets[d]
			in = in && at >= 0 && at < box.Sizes[d]
			rest /= t.Shape[d]
		}
		if !in {
			continue
		}
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], (tr.seed*1000003+uint64(i))*0x9e3779b97f4a7c15+uint64(e)*0xbf58476d1ce4e5b9)
		if t.DType == tensor.F32 {
			word[7] &^= 0x40 // below 2, to fit float16
		}
		b = append(b, word[8-size:]...)
	}
	return b
}

func (tr truth) all(i int) tensor.Box { return tensor.FullBox(tr.tensors[i].Shape) }

// split gives every rank boxes of every tensor, covering it; with overlap, some are shared or
// overlap. Items hold the truth, or zeros if empty.
func (tr truth) split(ranks int, rng *rand.Rand, overlap, empty bool) [][]Item {
	items := make([][]Item, ranks)
	add := func(i int, box tensor.Box) {
		for range 1 + rng.IntN(2) {
			rank := rng.IntN(ranks)
			items[rank] = append(items[rank], tr.item(i, box, empty))
			if !overlap {
				break
			}
			if rng.IntN(2) == 0 {
				box = larger(box, tr.tensors[i].Shape, rng)
			}
		}
	}
	for i := range tr.tensors {
		switch all := tr.all(i); {
		case all.Elems() == 0:
			add(i, all)
		case rng.IntN(2) == 0: // runs of elements
			for lo, n := 0, all.Elems(); lo < n; {
				hi := lo + 1 + rng.IntN(n-lo)
				for _, b := range all.Range(lo, hi) {
					add(i, b)
				}
				lo = hi
			}
		default:
			for _, b := range guillotine(all, rng, 3) {
				add(i, b)
			}
		}
	}
	return items
}

// guillotine splits a box in two along any dimension, recursively.
func guillotine(b tensor.Box, rng *rand.Rand, depth int) []tensor.Box {
	d := 0
	if len(b.Sizes) > 0 {
		d = rng.IntN(len(b.Sizes))
	}
	if depth == 0 || len(b.Sizes) == 0 || b.Sizes[d] < 2 {
		return []tensor.Box{b}
	}
	at := b.Offsets[d] + 1 + rng.IntN(b.Sizes[d]-1)
	return append(guillotine(rows(b, d, b.Offsets[d], at), rng, depth-1), guillotine(rows(b, d, at, b.Offsets[d]+b.Sizes[d]), rng, depth-1)...)
}

// rows returns the part of a box within [lo, hi) of dimension d, or a longer one.
func rows(b tensor.Box, d, lo, hi int) tensor.Box {
	return b.Slice(d, lo-b.Offsets[d], hi-b.Offsets[d])
}

// larger returns a box that contains b.
func larger(b tensor.Box, s tensor.Shape, rng *rand.Rand) tensor.Box {
	for d, n := range s {
		end := b.Offsets[d] + b.Sizes[d]
		b = rows(b, d, rng.IntN(b.Offsets[d]+1), end+rng.IntN(n-end+1))
	}
	return b
}

func (tr truth) item(i int, box tensor.Box, empty bool) Item {
	t := tr.tensors[i]
	n := box.Elems()
	size := n * t.DType.Size()
	b := make([]byte, size)
	if !empty {
		copy(b, tr.bytes(i, box))
	}
	data := tensor.Of(tensor.NewBuffer(b, size, tensor.Params, nil), t.DType, 0, n)
	return Item{t.Kind, tensor.Shard{Name: t.Name, DType: t.DType, Shape: t.Shape, Box: box, Data: data}}
}

// same compares items with the truth.
func (tr truth) same(items []Item) error {
	for _, it := range items {
		for i, t := range tr.tensors {
			if t.Kind != it.Kind || t.Name != it.Name || it.Box.Elems() == 0 {
				continue
			}
			if string(tensor.HostBytes(it.Data)) != string(tr.bytes(i, it.Box)) {
				return fmt.Errorf("%s/%s %v differs", it.Kind, it.Name, it.Box)
			}
		}
	}
	return nil
}

// testStore returns a Store with small chunks on fs.
func testStore(t testing.TB, m ProcessGroup, fs fileSystem, dir string, cfg Config) *Store {
	t.Helper()
	s, err := NewStore(dir, "a-run", cfg, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if fs != nil {
		s.fs = renaming{fs}
	}
	s.chunk, s.epoch = 64, 3
	return s
}

func (tr truth) meta(step int) Meta {
	return Meta{Step: step, Strategy: "full_shard", Config: "a: 1\n", State: fmt.Appendf(nil, `{"seed":%d}`, tr.seed)}
}
