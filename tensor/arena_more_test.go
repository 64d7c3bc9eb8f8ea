package tensor

import (
	"errors"
	"testing"
)

// TestArenaGrows checks that a full region is extended, and that the first block or Map maps an
// unmapped one.
func TestArenaGrows(t *testing.T) {
	a, err := Reserve(4 * align)
	if err != nil {
		t.Fatal(err)
	}
	var blocks [][]byte
	for i := range 20 {
		b := a.Alloc(3 * align)
		for k := range b {
			b[k] = byte(i)
		}
		blocks = append(blocks, b)
	}
	for i, b := range blocks {
		if b[0] != byte(i) || b[len(b)-1] != byte(i) {
			t.Fatalf("block %d holds another's bytes", i)
		}
		a.Free(b)
	}
	if b := a.Alloc(4 * align); len(b) != 4*align {
		t.Error("freed blocks are not reused")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnmappedArena(t *testing.T) {
	asked := []int{}
	makeArena := func() *Arena {
		return NewUnmappedArena(8*align, 3, func(n int) ([]byte, error) {
			asked = append(asked, n)
			return make([]byte, n), nil
		}, nil)
	}
	a := makeArena()
	if err := errors.Join(a.Map(2*align), a.Map(6*align)); err != nil || a.Views() != 3 {
		t.Fatal(err, a.Views())
	}
	if off, ok := a.Offset(a.Alloc(align)); !ok || off != 0 {
		t.Error(off, ok)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("allocated more than was mapped")
			}
		}()
		a.Alloc(2 * align)
	}()
	b := makeArena()
	b.Alloc(align)
	if len(asked) != 2 || asked[0] != 2*align || asked[1] != 8*align {
		t.Error("mapped", asked)
	}
}
