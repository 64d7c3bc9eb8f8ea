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

// world is ranks as goroutines that gather in memory.
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

var _ Agreement = member{}

func (m member) Rank() int { return m.rank }
func (m member) Size() int { return m.size }

func (m member) Gather(_ context.Context, b []byte) ([][]byte, error) {
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

// run calls f once a rank, all at the same time, and returns what each returned. A rank
// that panics with errPower is gone, and the others notice.
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

// truth is a state of which every byte is known: a function of seed, tensor and index.
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

// bytes of elements [lo, hi) of tensor i.
func (tr truth) bytes(i, lo, hi int) []byte {
	size := tr.tensors[i].DType.Size()
	var b []byte
	for e := lo; e < hi; e++ {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], (tr.seed*1000003+uint64(i))*0x9e3779b97f4a7c15+uint64(e)*0xbf58476d1ce4e5b9)
		if tr.tensors[i].DType == tensor.F32 {
			word[7] &^= 0x40 // below 2, so that float16 holds it
		}
		b = append(b, word[8-size:]...)
	}
	return b
}

// split gives every rank some ranges of every tensor: together all of them, with overlaps
// where rng wants them. The items are filled with the truth, or zeroed when empty is set.
func (tr truth) split(ranks int, rng *rand.Rand, overlap, empty bool) [][]Item {
	items := make([][]Item, ranks)
	for i, t := range tr.tensors {
		n := t.Shape.Elems()
		for lo := 0; ; {
			hi := lo
			if n > lo {
				hi = lo + 1 + rng.IntN(n-lo)
				if rng.IntN(2) == 0 {
					hi = min(n, lo+n/ranks+1)
				}
			}
			for range 1 + rng.IntN(2) {
				first, end := lo, hi
				if overlap {
					first, end = rng.IntN(lo+1), hi+rng.IntN(n-hi+1)
				}
				rank := rng.IntN(ranks)
				items[rank] = append(items[rank], tr.item(i, first, end-first, empty))
				if !overlap {
					break
				}
			}
			if lo = hi; lo >= n {
				break
			}
		}
	}
	return items
}

func (tr truth) item(i, first, count int, empty bool) Item {
	t := tr.tensors[i]
	size := count * t.DType.Size()
	b := make([]byte, size)
	if !empty {
		copy(b, tr.bytes(i, first, first+count))
	}
	data := tensor.Of(tensor.NewBuffer(b, size, tensor.Params, nil), t.DType, 0, count)
	return Item{t.Kind, tensor.Shard{Name: t.Name, DType: t.DType, Shape: t.Shape, First: first, Count: count, Data: data}}
}

// same says whether items hold the truth, byte by byte.
func (tr truth) same(items []Item) error {
	for _, it := range items {
		for i, t := range tr.tensors {
			if t.Kind != it.Kind || t.Name != it.Name || it.Count == 0 {
				continue
			}
			if string(tensor.HostBytes(it.Data)) != string(tr.bytes(i, it.First, it.First+it.Count)) {
				return fmt.Errorf("%s/%s [%d,%d) differs", it.Kind, it.Name, it.First, it.First+it.Count)
			}
		}
	}
	return nil
}

// testStore is a Store with small chunks on fs.
func testStore(t testing.TB, m Agreement, fs fileSystem, dir string, cfg Config) *Store {
	t.Helper()
	s, err := NewStore(dir, "a-run", cfg, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if fs != nil {
		s.fs = fs
	}
	s.chunk = 64
	return s
}

func (tr truth) meta(step int) Meta {
	return Meta{Step: step, Epoch: 3, Strategy: "full_shard", Config: "a: 1\n", State: fmt.Appendf(nil, `{"seed":%d}`, tr.seed)}
}
