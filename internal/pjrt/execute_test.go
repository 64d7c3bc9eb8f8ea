package pjrt

import (
	"math"
	"testing"
)

// The IDs of launches are equal on all devices, positive, and different within a program.
func TestLaunch(t *testing.T) {
	for _, first := range []uint32{0, 7, math.MaxInt32 - 1, math.MaxUint32 - 1} {
		e := &Executable{first: first, count: map[int]uint32{}}
		seen := map[int32]bool{}
		for range 10 {
			a, b := e.launch(&Device{id: 0}), e.launch(&Device{id: 5})
			if a != b || a <= 0 {
				t.Errorf("first %d: %d and %d", first, a, b)
			}
			seen[a] = true
		}
		if len(seen) < 9 { // 0 becomes 1
			t.Errorf("first %d: %v", first, seen)
		}
	}
}
