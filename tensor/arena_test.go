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

// sound fails unless blocks and free spans partition the region in order, and no two free spans are
// adjacent.
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
			t.Fatalf("free span %+v overlaps a block", s)
		}
		at[s.off] = part{s, false}
	}
	lastFree := false
	for off := 0; off < len(a.mem)&^(align-1); {
		p, ok := at[off]
		if !ok {
			t.Fatalf("no block or free span at %d: blocks %v, free %v", off, a.used, a.free)
		}
		if !p.used && lastFree {
			t.Fatalf("adjacent free spans at %d", off)
		}
		lastFree = !p.used
		delete(at, off)
		off += p.size
	}
	if len(at) > 0 {
		t.Fatalf("%d spans overlap", len(at))
	}
}

// TestArenaAllocFree checks that random blocks keep their contents until freed, and that free
// space is joined and reused.
func TestArenaAllocFree(t *testing.T) {
	type block struct {
		b    []byte
		mark byte
	}
	const pages = 40
	region, err := Reserve(pages*align + 100) // the tail is unused
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
				end := rapid.Bool().Draw(t, "end")
				room, best, high := 0, 1<<40, -1 // high: the end of the last gap that has been used
				for _, s := range a.free {
					room = max(room, s.size)
					if s.size >= size {
						best = min(best, s.size)
						if s.off+s.size <= a.top && end {
							high = s.off + s.size
						}
					}
				}
				gaps := append([]span{}, a.free...)
				got, err := attempt(func() []byte { return a.alloc(n, end) })
				if fits := size <= room; fits != (err == nil) {
					t.Fatalf("%d bytes with %d free: %v", n, room, err)
				}
				if err != nil {
					return
				}
				if off, ok := a.Offset(got); !ok || off%align != 0 || len(got) != n {
					t.Fatalf("%d bytes at %d for %d", len(got), off, n)
				} else if high >= 0 {
					if off+size != high {
						t.Fatalf("%d bytes at %d: not at the end, %d, of a used gap: %v", n, off, high, gaps)
					}
				} else if i := slices.IndexFunc(gaps, func(s span) bool { return s.off <= off && off < s.off+s.size }); i < 0 || gaps[i].size != best {
					t.Fatalf("%d bytes at %d: not in the best fit of %d: %v", n, off, best, gaps)
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
					t.Fatalf("double free accepted")
				}
				live = append(live[:i], live[i+1:]...)
			},
			"": func(t *rapid.T) {
				a.sound(t)
				for _, b := range live {
					if bytes.Count(b.b, []byte{b.mark}) != len(b.b) {
						t.Fatalf("a block of %d bytes was overwritten", len(b.b))
					}
				}
			},
		})
		for _, b := range live {
			a.Free(b.b)
		}
		if a.sound(t); len(a.free) != 1 {
			t.Fatalf("all free, but in %d spans", len(a.free))
		}
		if b := a.Alloc(pages * align); len(b) != pages*align || a.top != pages*align {
			t.Fatalf("the whole region cannot be allocated")
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

// TestArenaReuses checks that a repeated pattern of blocks touches no new memory.
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
		return a.top // the high-water mark
	}
	first := round()
	for range 5 {
		if got := round(); got != first {
			t.Errorf("touched %d bytes, %d the first time", got, first)
		}
	}
}

// TestArenaConcurrent is for the race detector.
func TestArenaConcurrent(t *testing.T) {
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
					t.Error("two goroutines share a block")
				}
				a.Free(b)
			}
		}()
	}
	wg.Wait()
	a.sound(t)
}

func TestArenaFreeForeign(t *testing.T) {
	a, err := Reserve(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := a.Alloc(3 * align)
	for what, x := range map[string][]byte{"the Go heap": make([]byte, 8), "the middle of a block": b[align:], "a gap": a.mem[10*align:]} {
		if _, err := attempt(func() []byte { a.Free(x); return nil }); err == nil || !strings.Contains(err.Error(), "did not allocate") {
			t.Errorf("%s was freed: %v", what, err)
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
