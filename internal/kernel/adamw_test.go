package kernel

import (
	"testing"

	"trireme/internal/impl"
)

func TestAdamWFlushesSubnormalMoments(t *testing.T) {
	impl.Each(t, func(t *testing.T) {
		for n := 1; n < 40; n++ {
			p, m, v, g := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range p {
				p[i], m[i], v[i] = 1, -0x1.01p-126, 0x1.01p-126
			}
			AdamW(p, m, v, g, &AdamWStep{Keep: 1, Beta1: 0.9, New1: 0.1, Beta2: 0.95, New2: 0.05, Rate: 0.01, Root: 1, Eps: 1e-8, Scale: 1})
			for i := range p {
				if p[i] != 1 || m[i] != 0 || v[i] != 0 {
					t.Fatalf("element %d of %d: %v %v %v", i, n, p[i], m[i], v[i])
				}
			}
		}
	})
}

// BenchmarkAdamW runs on parameters in cache, with gradients and with gradients that are long 0.
func BenchmarkAdamW(b *testing.B) {
	for name, g0 := range map[string]float32{"gradient": 1, "none": 0} {
		b.Run(name, func(b *testing.B) {
			impl.Each(b, func(b *testing.B) {
				const n = 16 << 10
				p, m, v, g := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
				for i := range g {
					m[i], v[i], g[i] = 1e-38, 1e-38, g0
				}
				s := &AdamWStep{Keep: 1, Beta1: 0.9, New1: 0.1, Beta2: 0.95, New2: 0.05, Rate: 0.01, Root: 1, Eps: 1e-8, Scale: 1}
				for b.Loop() {
					AdamW(p, m, v, g, s)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/elem")
			})
		})
	}
}
