package xla

import "testing"

// Columns that wrap around a row of the buffer overlap columns in the next one.
func TestOverlaps(t *testing.T) {
	const ld, n = 5, 30
	var all []region
	for off := range 9 {
		for rows := 1; rows <= 3; rows++ {
			for width := 1; width <= ld; width++ {
				all = append(all, region{off: off, rows: rows, width: width, ld: ld})
			}
		}
	}
	elements := func(r region) (in [n]bool) {
		for i := range r.rows {
			for j := range r.width {
				in[r.off+i*r.ld+j] = true
			}
		}
		return in
	}
	for _, r := range all {
		for _, o := range all {
			x, y, both := elements(r), elements(o), false
			for i := range x {
				both = both || x[i] && y[i]
			}
			if both && !r.overlaps(o) {
				t.Fatalf("%+v and %+v overlap", r, o)
			}
		}
	}
}
