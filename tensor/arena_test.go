package tensor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// sound fails where the arena's books are wrong: blocks and gaps are the region, once, in
// order, and no two gaps touch.
func (a *Arena) sound(t interface{ Fatalf(string, ...any) }) {
	type part struct {
		span
		used bool
	}
	at := map[int]part{}
	for off, size := range a.used {
		at[off] = part{span{off, size}, true}
	}
	for _, s := range a.free {
		if _, twice := at[s.off]; twice || s.size <= 0 {
			t.Fatalf("a gap %+v where a block is", s)
		}
		at[s.off] = part{s, false}
	}
	lastFree := false
	for off := 0; off < len(a.mem)&^(align-1); {
		p, ok := at[off]
		if !ok {
			t.Fatalf("nothing begins at %d: blocks %v, gaps %v", off, a.used, a.free)
		}
		if !p.used && lastFree {
			t.Fatalf("two gaps touch at %d", off)
		}
		lastFree = !p.used
		delete(at, off)
		off += p.size
	}
	if len(at) > 0 {
		t.Fatalf("%d parts lie over others", len(at))
	}
}

// TestArenaGivesAndTakes: random blocks keep their contents until they go back, whatever else
// comes and goes; what comes back is joined and given out again.
func TestArenaGivesAndTakes(t *testing.T) {
	type block struct {
		b    []byte
		mark byte
	}
	const pages = 40
	region, err := Reserve(pages*align + 100) // the tail is of no use
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	rapid.Check(t, func(t *rapid.T) {
		a := NewArena(region.mem, nil)
		var live []block
		mark := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.OneOf(rapid.IntRange(0, 3*align), rapid.SampledFrom([]int{0, 1, align - 1, align, align + 1, pages * align})).Draw(t, "bytes")
				size := max(1, (n+align-1)/align) * align
				room, best := 0, 1<<40
				for _, s := range a.free {
					room = max(room, s.size)
					if s.size >= size {
						best = min(best, s.size)
					}
				}
				gaps := append([]span{}, a.free...)
				got, err := attempt(func() []byte { return a.Alloc(n) })
				if fits := size <= room; fits != (err == nil) {
					t.Fatalf("%d bytes with a gap of %d: %v", n, room, err)
				}
				if err != nil {
					return
				}
				if off, ok := a.Offset(got); !ok || off%align != 0 || len(got) != n {
					t.Fatalf("%d bytes at %d for %d", len(got), off, n)
				} else if i := slices.IndexFunc(gaps, func(s span) bool { return s.off <= off && off < s.off+s.size }); i < 0 || gaps[i].size != best {
					t.Fatalf("%d bytes at %d: not in the smallest gap that holds them, of %d: %v", n, off, best, gaps)
				}
				mark++
				for i := range got {
					got[i] = mark
				}
				live = append(live, block{got, mark})
			},
			"free": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip("nothing to free")
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "block")
				a.Free(live[i].b)
				if _, err := attempt(func() []byte { a.Free(live[i].b); return nil }); err == nil {
					t.Fatalf("a block was taken back twice")
				}
				live = append(live[:i], live[i+1:]...)
			},
			"": func(t *rapid.T) {
				a.sound(t)
				for _, b := range live {
					if bytes.Count(b.b, []byte{b.mark}) != len(b.b) {
						t.Fatalf("a block of %d bytes was written over", len(b.b))
					}
				}
			},
		})
		for _, b := range live {
			a.Free(b.b)
		}
		if a.sound(t); len(a.free) != 1 {
			t.Fatalf("all is free, in %d gaps", len(a.free))
		}
		if b := a.Alloc(pages * align); len(b) != pages*align || a.top != pages*align {
			t.Fatalf("the whole region is not given out again")
		}
	})
}

func attempt(f func() []byte) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return f(), nil
}

// TestArenaReuses: a steady run of blocks touches no more memory the second time.
func TestArenaReuses(t *testing.T) {
	a, err := Reserve(1 << 24)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	round := func() int {
		var held [][]byte
		for i := range 20 {
			held = append(held, a.Alloc(i*3000))
			if i%3 == 2 {
				a.Free(held[0])
				held = held[1:]
			}
		}
		for _, b := range held {
			a.Free(b)
		}
		return a.top // the end of the highest block ever given out
	}
	first := round()
	for range 5 {
		if got := round(); got != first {
			t.Errorf("%d bytes are touched, %d the first time", got, first)
		}
	}
}

// TestArenaFromManyGoroutines is for the race detector.
func TestArenaFromManyGoroutines(t *testing.T) {
	a, err := Reserve(1 << 24)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 200 {
				b := a.Alloc(1 + (g*131+i*977)%9000)
				for k := range b {
					b[k] = byte(g)
				}
				if bytes.Count(b, []byte{byte(g)}) != len(b) {
					t.Error("two goroutines have one block")
				}
				a.Free(b)
			}
		}()
	}
	wg.Wait()
	a.sound(t)
}

func TestForeignBlocksAreRefused(t *testing.T) {
	a, err := Reserve(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := a.Alloc(3 * align)
	for what, x := range map[string][]byte{"the Go heap": make([]byte, 8), "the middle of a block": b[align:], "a gap": a.mem[10*align:]} {
		if _, err := attempt(func() []byte { a.Free(x); return nil }); err == nil || !strings.Contains(err.Error(), "did not give out") {
			t.Errorf("%s was taken back: %v", what, err)
		}
	}
	a.sound(t)
}

func TestBufferReleasedTwicePanics(t *testing.T) {
	n := 0
	buf := NewBuffer(make([]byte, 8), 8, Params, func(*Buffer) { n++ })
	x := Of(buf, F32, 0, 2)
	x.Release()
	if _, err := attempt(func() []byte { x.Flat(0, 1).Release(); return nil }); err == nil || n != 1 {
		t.Errorf("a second release: %v, freed %d times", err, n)
	}
}
