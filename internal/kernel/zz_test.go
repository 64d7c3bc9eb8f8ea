package kernel

import (
	"fmt"
	"testing"
)

func BenchmarkZZ(b *testing.B) {
	a := make([]uint16, 16*16*1024)
	bb := make([]uint16, 16*16*1024)
	out := make([]float32, 1024*528)
	for _, c := range []struct{ s, p, k, ld int }{{1, 1, 1, 80}, {2, 2, 1, 80}, {2, 2, 2, 80}, {2, 8, 2, 272}, {8, 2, 2, 80}, {16, 2, 2, 80}, {2, 2, 16, 80}, {2, 2, 8, 80}} {
		for _, first := range []bool{true, false} {
			b.Run(fmt.Sprint(c, first), func(b *testing.B) {
				for range b.N {
					tiles(tilesOf{c.s, c.p, c.k, c.k * 1024, c.k * 1024}, a, bb, out, c.ld, first)
				}
				b.ReportMetric(float64(c.s*c.p*c.k)*32*32*32*2*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF")
			})
		}
	}
}
