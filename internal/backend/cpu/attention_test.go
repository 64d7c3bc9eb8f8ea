package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"trireme/internal/backend/naive"
	"trireme/internal/impl"
	"trireme/tensor"
)

// attnCase is a test problem; its inputs are a function of it.
type attnCase struct {
	batch, t int
	longest  int // 0: t
	p        tensor.AttentionParams
	docs     int          // 0: none, 1: ascending, 2: ids that recur
	dt       tensor.DType // of all tensors but lse
	gap      int          // columns around q, k, v in their matrix
	seeds    [2]uint64
	first    int64 // id of the first row
}

func (c attnCase) String() string {
	return fmt.Sprintf("B%d_T%d_H%d_K%d_E%d_causal=%v_window%d_docs%d_%v_dropout%v", c.batch, c.t, c.p.Heads, c.p.KVHeads, c.p.E, c.p.Causal, c.p.Window, c.docs, c.dt, c.p.Dropout)
}

// ids are the document of each position, or nil.
func (c attnCase) ids() []int32 {
	if c.docs == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(c.seeds[0], 99))
	ids := make([]int32, c.batch*c.t)
	id := int32(0)
	for i := range ids {
		if i%c.t == 0 || r.IntN(7) == 0 {
			id++
			if c.docs == 2 {
				id = int32(r.IntN(3))
			}
		}
		ids[i] = id
	}
	return ids
}

// attnData are a case's tensors. q, k, v (and their gradients) are columns of one matrix with
// canaries between.
type attnData struct {
	b                    *Backend
	qkv, dqkv            *tensor.Tensor
	q, k, v, o, lse      *tensor.Tensor
	do, dq, dk, dv, docs *tensor.Tensor
	starts, numbers      *tensor.Tensor
	all                  []*tensor.Tensor
}

const attnCanary = 12345.5 // not representable in BF16

func newAttnData(b *Backend, c attnCase) *attnData {
	d := &attnData{b: b}
	n, hq, hk := c.batch*c.t, c.p.Heads*c.p.E, c.p.KVHeads*c.p.E
	mk := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		t := b.New(tensor.Activations, dt, shape...)
		d.all = append(d.all, t)
		return t
	}
	w := hq + 2*hk + 4*c.gap
	d.qkv, d.dqkv = mk(c.dt, n, w), mk(c.dt, n, w)
	cut := func(t *tensor.Tensor) (q, k, v *tensor.Tensor) {
		return t.Cols(c.gap, c.gap+hq), t.Cols(2*c.gap+hq, 2*c.gap+hq+hk), t.Cols(3*c.gap+hq+hk, 3*c.gap+hq+2*hk)
	}
	d.q, d.k, d.v = cut(d.qkv)
	d.dq, d.dk, d.dv = cut(d.dqkv)
	d.o, d.do = mk(c.dt, n, hq), mk(c.dt, n, hq)
	d.starts, d.numbers = mk(tensor.I32, c.batch+1), mk(tensor.I64, n)
	for i := range c.batch + 1 {
		tensor.Host[int32](d.starts)[i] = int32(i * c.t)
	}
	for i := range n {
		tensor.Host[int64](d.numbers)[i] = c.first + int64(i)
	}
	d.lse = mk(tensor.F32, c.p.Heads, n)
	r := rand.New(rand.NewPCG(c.seeds[0], c.seeds[1]))
	put := func(t *tensor.Tensor, f func() float64) {
		for i := range t.Rows() {
			for j := range t.Width() {
				attnSet(t, i, j, f())
			}
		}
	}
	hold := func() float64 { return attnCanary }
	put(d.qkv, hold)
	put(d.dqkv, hold)
	for _, t := range []*tensor.Tensor{d.q, d.k, d.v, d.do} {
		put(t, r.NormFloat64)
	}
	if ids := c.ids(); ids != nil {
		d.docs = mk(tensor.I32, n)
		copy(tensor.Host[int32](d.docs), ids)
	}
	return d
}

func (d *attnData) run(c attnCase) {
	c.p.Rows, c.p.Starts, c.p.MaxSeqLen = d.numbers, d.starts, max(c.t, c.longest)
	d.b.Attention(d.o, d.lse, d.q, d.k, d.v, d.docs, c.p)
	d.b.AttentionBackward(d.dq, d.dk, d.dv, d.do, d.o, d.lse, d.q, d.k, d.v, d.docs, c.p)
}

func (d *attnData) release() {
	for _, t := range d.all {
		t.Release()
	}
}

func attnAt(t *tensor.Tensor, i, j int) float64 {
	if t.DType() == tensor.F32 {
		return float64(tensor.Host[float32](t)[i*t.RowStride()+j])
	}
	return float64(math.Float32frombits(uint32(tensor.Host[uint16](t)[i*t.RowStride()+j]) << 16))
}

func attnSet(t *tensor.Tensor, i, j int, x float64) {
	if t.DType() == tensor.F32 {
		tensor.Host[float32](t)[i*t.RowStride()+j] = float32(x)
		return
	}
	tensor.Host[uint16](t)[i*t.RowStride()+j] = uint16((math.Float32bits(float32(x)) + 0x8000) >> 16)
}

func attnValues(t *tensor.Tensor) []float64 {
	x := make([]float64, 0, t.Elems())
	for i := range t.Rows() {
		for j := range t.Width() {
			x = append(x, attnAt(t, i, j))
		}
	}
	return x
}

// attnWant is the naive backend's result in float64.
type attnWant struct{ o, lse, dq, dk, dv []float64 }

func newAttnWant(c attnCase, d *attnData) attnWant {
	b := naive.New()
	float := func(rows, width int) *tensor.Tensor { return b.New(tensor.Activations, tensor.F64, rows, width) }
	in := func(t *tensor.Tensor) *tensor.Tensor {
		x := float(t.Rows(), t.Width())
		copy(tensor.Host[float64](x), attnValues(t))
		return x
	}
	whole := func(t *tensor.Tensor) *tensor.Tensor {
		if t == nil {
			return nil
		}
		x := b.New(tensor.Activations, t.DType(), t.Shape()...)
		b.Upload(x, tensor.HostBytes(t))
		return x
	}
	p := c.p
	p.Rows, p.Starts, p.MaxSeqLen = whole(d.numbers), whole(d.starts), c.t
	q, k, v, do, docs := in(d.q), in(d.k), in(d.v), in(d.do), whole(d.docs)
	n, hq, hk := c.batch*c.t, p.Heads*p.E, p.KVHeads*p.E
	o, lse, dq, dk, dv := float(n, hq), float(p.Heads, n), float(n, hq), float(n, hk), float(n, hk)
	b.Attention(o, lse, q, k, v, docs, p)
	b.AttentionBackward(dq, dk, dv, do, o, lse, q, k, v, docs, p)
	values := func(t *tensor.Tensor) []float64 { return tensor.Host[float64](t) }
	return attnWant{values(o), values(lse), values(dq), values(dk), values(dv)}
}

func attnBackend(t testing.TB, threads int) *Backend {
	t.Helper()
	b, err := New(Options{Threads: threads, Reserve: 1 << 36})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func attnNear(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	var size float64
	for _, x := range want {
		size = max(size, math.Abs(x))
	}
	for i := range want {
		if d := math.Abs(got[i] - want[i]); !(d <= tol*(size+0.3)) {
			t.Fatalf("%s[%d] = %g, want %g (largest %g)", what, i, got[i], want[i], size)
		}
	}
}

func attnCases() []attnCase {
	r := rand.New(rand.NewPCG(1, 2))
	heads := [][2]int{{1, 1}, {4, 2}, {6, 2}, {8, 1}}
	var cases []attnCase
	for _, t := range []int{1, 2, 15, 16, 17, 33, 64, 100, 257} {
		for _, e := range []int{1, 3, 8, 16, 32, 40, 64, 128} {
			hk := heads[r.IntN(4)]
			if t > 200 && e > 32 {
				hk = heads[0]
			}
			c := attnCase{seeds: [2]uint64{r.Uint64(), 7}, gap: r.IntN(4), docs: max(0, r.IntN(5)-2)}
			c.batch, c.t = 1+r.IntN(2), t
			c.p = tensor.AttentionParams{Heads: hk[0], KVHeads: hk[1], E: e, Scale: 1 / math.Sqrt(float64(e)), Causal: r.IntN(3) > 0}
			if r.IntN(3) == 0 {
				c.p.Window = 1 + r.IntN(2*t)
			}
			if r.IntN(5) == 0 {
				c.dt = tensor.BF16
			}
			if s := c.seeds[0]; s%3 == 0 && t > 1 { // a single position leaves only rounding errors in dq
				c.p.Dropout, c.p.Key, c.first = 0.25, tensor.RandKey{Seed: s, Stream: ^s}, int64(s>>34)
			}
			cases = append(cases, c)
		}
	}
	// Several chunks of keys, and a window that skips whole tiles.
	for i, w := range []int{0, 0, 130, 0, 70} {
		c := attnCase{seeds: [2]uint64{uint64(i), 3}, gap: 1, docs: i % 3}
		c.batch, c.t = 1, 1100-13*i
		c.p = tensor.AttentionParams{Heads: 2, KVHeads: 1, E: 16, Scale: 0.3, Causal: i != 1, Window: w}
		if i > 2 {
			c.p.Dropout, c.first = 0.1, 1<<33-500
		}
		cases = append(cases, c)
	}
	// The same for AMX tiles, with head sizes that fill them or not.
	for i, e := range []int{32, 40, 64, 128, 96} {
		c := attnCase{seeds: [2]uint64{uint64(i), 4}, gap: 1, docs: i % 3, dt: tensor.BF16}
		c.batch, c.t = 1, []int{1090, 576, 640, 530, 97}[i]
		c.p = tensor.AttentionParams{Heads: 2, KVHeads: 1 + i%2, E: e, Scale: 1 / math.Sqrt(float64(e)), Causal: i != 1, Window: []int{0, 0, 130, 0, 0}[i]}
		if i > 2 {
			c.p.Dropout, c.first = 0.1, 1<<33-500
		}
		cases = append(cases, c)
	}
	return cases
}

// TestAttentionAgainstFormula has more sizes than the conformance suite: chunks, windows and tiles.
func TestAttentionAgainstFormula(t *testing.T) {
	if testing.Short() {
		t.Skip("short: TestAttentionBits has the goroutines")
	}
	b := attnBackend(t, 2)
	cases := attnCases()
	want := make([]attnWant, len(cases))
	for i, c := range cases {
		d := newAttnData(b, c)
		want[i] = newAttnWant(c, d)
		d.release()
	}
	impl.Each(t, func(t *testing.T) {
		for i, c := range cases {
			t.Run(c.String(), func(t *testing.T) {
				d := newAttnData(b, c)
				defer d.release()
				before := attnValues(d.qkv)
				d.run(c)
				tol := 4e-6
				if c.dt == tensor.BF16 {
					tol = 1.5e-2
				}
				w := want[i]
				attnNear(t, "o", attnValues(d.o), w.o, tol)
				attnNear(t, "lse", attnValues(d.lse), w.lse, 4e-6)
				attnNear(t, "dq", attnValues(d.dq), w.dq, tol)
				attnNear(t, "dk", attnValues(d.dk), w.dk, tol)
				attnNear(t, "dv", attnValues(d.dv), w.dv, tol)
				for i, x := range attnValues(d.qkv) {
					if x != before[i] {
						t.Fatalf("input %d was %g and is now %g", i, before[i], x)
					}
				}
				d.checkCanaries(t, c)
			})
		}
	})
}

// checkCanaries finds writes between the gradients.
func (d *attnData) checkCanaries(t *testing.T, c attnCase) {
	t.Helper()
	hq, hk := c.p.Heads*c.p.E, c.p.KVHeads*c.p.E
	for _, from := range []int{0, c.gap + hq, 2*c.gap + hq + hk, 3*c.gap + hq + 2*hk} {
		for i := range d.dqkv.Rows() {
			for j := from; j < from+c.gap; j++ {
				if math.Abs(attnAt(d.dqkv, i, j)-attnCanary) > 64 {
					t.Fatalf("row %d, column %d of the gap was overwritten by %g", i, j, attnAt(d.dqkv, i, j))
				}
			}
		}
	}
}

// Results do not depend on threads, position in the batch or head index.
func TestAttentionBits(t *testing.T) {
	one := attnBackend(t, 1)
	eachSet(t, func(t *testing.T) {
		for i, c := range attnCases() {
			c.batch = 3
			if c.t*c.p.E > 5000 || testing.Short() && i%5 > 0 {
				continue
			}
			base := newAttnData(one, c)
			base.run(c)
			for _, threads := range []int{2, 3, 16} {
				b := attnBackend(t, threads)
				d := newAttnData(b, c)
				d.run(c)
				base.same(t, c, d, 0)
			}
			alone := c
			alone.batch = 1
			alone.first += 2 * int64(c.t)
			if c.docs > 0 {
				continue
			}
			// Row 2 of the batch, alone.
			d := newAttnData(one, alone)
			for i := range d.qkv.Rows() {
				for j := range d.qkv.Width() {
					attnSet(d.qkv, i, j, attnAt(base.qkv, 2*c.t+i, j))
				}
				for j := range d.do.Width() {
					attnSet(d.do, i, j, attnAt(base.do, 2*c.t+i, j))
				}
			}
			d.run(alone)
			base.same(t, c, d, 2)
			d.release()
			base.release()
		}
	})
}

// same compares d with base's sequences from seq on.
func (base *attnData) same(t *testing.T, c attnCase, d *attnData, seq int) {
	t.Helper()
	for _, x := range []struct {
		what string
		a, b *tensor.Tensor
	}{{"o", base.o, d.o}, {"dq", base.dq, d.dq}, {"dk", base.dk, d.dk}, {"dv", base.dv, d.dv}} {
		for i := range x.b.Rows() {
			for j := range x.b.Width() {
				if a, b := attnAt(x.a, seq*c.t+i, j), attnAt(x.b, i, j); a != b {
					t.Fatalf("%v: %s[%d,%d] is %g, want %g", c, x.what, i, j, a, b)
				}
			}
		}
	}
	for h := range c.p.Heads {
		for i := range d.lse.Width() {
			if a, b := attnAt(base.lse, h, seq*c.t+i), attnAt(d.lse, h, i); a != b {
				t.Fatalf("%v: lse[%d,%d] is %g, want %g", c, h, i, a, b)
			}
		}
	}
}

// Results of a sequence do not depend on the others or on threads, for uneven and empty sequences
// and padding.
func TestAttentionUnevenSequences(t *testing.T) {
	lengths := []int{130, 0, 1, 17, 600, 64, 3}
	eachSet(t, func(t *testing.T) {
		for i, p := range []tensor.AttentionParams{
			{Heads: 4, KVHeads: 2, E: 16, Causal: true},
			{Heads: 2, KVHeads: 2, E: 40},
			{Heads: 3, KVHeads: 1, E: 32, Causal: true, Window: 20, Dropout: 0.2},
		} {
			for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
				p.Scale = 0.3
				all := attnCase{batch: 1, t: 5, dt: dt, p: p, gap: 1, seeds: [2]uint64{uint64(i), 8}, first: 70}
				starts := []int32{0}
				for _, n := range lengths {
					starts = append(starts, starts[len(starts)-1]+int32(n))
				}
				all.t += int(starts[len(lengths)])
				var one []float64
				for _, threads := range []int{1, 3, 40} {
					b := attnBackend(t, threads)
					d := newAttnData(b, all)
					d.starts = ints(b, starts...)
					d.run(all)
					if threads > 1 {
						if got := d.results(0, all.t); !slices.Equal(got, one) {
							t.Fatalf("%+v %v: %d threads change bits", p, dt, threads)
						}
						continue
					}
					one = d.results(0, all.t)
					for _, x := range d.results(int(starts[len(lengths)]), all.t) {
						if x != 0 {
							t.Fatalf("%+v %v: %g in a padding row", p, dt, x)
						}
					}
					for s, n := range lengths {
						c, from := all, int(starts[s])
						if c.t, c.first = n, all.first+int64(from); n == 0 {
							continue
						}
						alone := newAttnData(b, c)
						for r := range n {
							for j := range d.qkv.Width() {
								attnSet(alone.qkv, r, j, attnAt(d.qkv, from+r, j))
							}
							for j := range d.do.Width() {
								attnSet(alone.do, r, j, attnAt(d.do, from+r, j))
							}
						}
						c.longest = all.t
						alone.run(c)
						if !slices.Equal(alone.results(0, n), d.results(from, from+n)) {
							t.Fatalf("%+v %v: bits of a sequence of %d rows depend on others", p, dt, n)
						}
					}
				}
			}
		}
	})
}

// results are the results of some rows.
func (d *attnData) results(from, to int) (all []float64) {
	for _, x := range []*tensor.Tensor{d.o, d.dq, d.dk, d.dv} {
		for i := from; i < to; i++ {
			for j := range x.Width() {
				all = append(all, attnAt(x, i, j))
			}
		}
	}
	for h := range d.lse.Rows() {
		for i := from; i < to; i++ {
			all = append(all, attnAt(d.lse, h, i))
		}
	}
	return all
}

// NaN spreads only to rows that attend to it.
func TestAttentionNaN(t *testing.T) {
	oneGoroutine(t)
	b := attnBackend(t, 1)
	impl.Each(t, func(t *testing.T) {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			c := attnCase{batch: 1, t: 300, dt: dt, p: tensor.AttentionParams{Heads: 1, KVHeads: 1, E: 32, Scale: 0.2, Causal: true}}
			d := newAttnData(b, c)
			defer d.release()
			attnSet(d.k, 280, 3, math.NaN())
			d.run(c)
			for i := range c.t {
				if isNaN := math.IsNaN(attnAt(d.o, i, 0)); isNaN != (i >= 280) {
					t.Fatalf("%v, row %d: %g", dt, i, attnAt(d.o, i, 0))
				}
			}
			for _, x := range []*tensor.Tensor{d.dq, d.dk, d.dv} {
				if !math.IsNaN(attnAt(x, 281, 0)) {
					t.Fatalf("%v: a gradient lost the NaN", dt)
				}
			}
		}
	})
}

// Extreme scores neither overflow nor lose the maximum.
func TestAttentionExtremes(t *testing.T) {
	oneGoroutine(t)
	b := attnBackend(t, 1)
	impl.Each(t, func(t *testing.T) {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			c := attnCase{batch: 1, t: 70, dt: dt, p: tensor.AttentionParams{Heads: 1, KVHeads: 1, E: 16, Scale: 1, Causal: true}}
			d := newAttnData(b, c)
			defer d.release()
			for i := range c.t {
				for e := range c.p.E {
					attnSet(d.q, i, e, 30)
					attnSet(d.k, i, e, float64(i%7)*5-20)
				}
			}
			d.run(c)
			for i := range c.t {
				for _, x := range []*tensor.Tensor{d.o, d.dq, d.dk, d.dv} {
					if y := attnAt(x, i, 0); math.IsNaN(y) || math.IsInf(y, 0) {
						t.Fatalf("%v, row %d: %g", dt, i, y)
					}
				}
			}
		}
	})
}

func BenchmarkAttention(bench *testing.B) {
	for _, s := range []struct {
		name       string
		b, t, h, e int
		dt         tensor.DType
	}{
		{"A", 8, 256, 8, 32, tensor.F32}, {"B", 4, 512, 8, 64, tensor.F32}, {"C", 2, 512, 12, 64, tensor.F32},
		{"T512", 4, 512, 8, 64, tensor.BF16}, {"T2048", 1, 2048, 8, 64, tensor.BF16}, {"T4096", 1, 4096, 4, 64, tensor.BF16}, {"T2048E128", 1, 2048, 4, 128, tensor.BF16},
	} {
		c := attnCase{batch: s.b, t: s.t, dt: s.dt, p: tensor.AttentionParams{Heads: s.h, KVHeads: s.h, E: s.e, Scale: 1 / math.Sqrt(float64(s.e)), Causal: true}}
		flop := float64(s.b*s.h) * float64(s.t*(s.t+1)/2) * float64(s.e) * 2
		for _, backward := range []bool{false, true} {
			name, products := s.name+"/forward", 2.0
			if backward {
				name, products = s.name+"/backward", 5
			}
			bench.Run(name, func(bench *testing.B) {
				impl.Each(bench, func(bench *testing.B) {
					b := attnBackend(bench, 1)
					d := newAttnData(b, c)
					d.run(c)
					best := time.Hour
					bench.ResetTimer()
					for range bench.N {
						start := time.Now()
						if backward {
							b.AttentionBackward(d.dq, d.dk, d.dv, d.do, d.o, d.lse, d.q, d.k, d.v, d.docs, c.p)
						} else {
							b.Attention(d.o, d.lse, d.q, d.k, d.v, d.docs, c.p)
						}
						best = min(best, time.Since(start))
					}
					// The best call, since other load on the machine spoils a mean.
					bench.ReportMetric(products*flop*float64(bench.N)/bench.Elapsed().Seconds()/1e9, "GFLOP/s")
					bench.ReportMetric(products*flop/best.Seconds()/1e9, "best-GFLOP/s")
				})
			})
		}
	}
}

// BenchmarkAttentionDecode reads KV caches larger than the processor's cache.
func BenchmarkAttentionDecode(bench *testing.B) {
	for _, p := range []tensor.AttentionParams{{Heads: 12, KVHeads: 12, E: 64}, {Heads: 32, KVHeads: 8, E: 128}, {Heads: 8, KVHeads: 1, E: 64}} {
		for _, dt := range []tensor.DType{tensor.F32, tensor.BF16} {
			bench.Run(fmt.Sprintf("%d/%d of %d %v", p.Heads, p.KVHeads, p.E, dt), func(bench *testing.B) {
				impl.Each(bench, func(bench *testing.B) {
					b := attnBackend(bench, 1)
					n := 64 << 20 / (p.KVHeads * p.E * 4)
					p.Scale = 0.1
					k, v := random(b, 1, dt, 1, n, p.KVHeads*p.E), random(b, 2, dt, 1, n, p.KVHeads*p.E)
					q, o := random(b, 3, tensor.F32, 1, 1, p.Heads*p.E), b.New(0, tensor.F32, 1, p.Heads*p.E)
					last := ints(b, int32(n-1))
					bench.SetBytes(int64(k.Bytes() + v.Bytes()))
					for bench.Loop() {
						b.AttentionDecode(o, q, k, v, last, p)
					}
				})
			})
		}
	}
	bench.Run("only reading", func(bench *testing.B) {
		b := attnBackend(bench, 1)
		x, acc := random(b, 1, tensor.F32, 1, 32<<20), b.New(0, tensor.I64, tensor.ExactWords)
		bench.SetBytes(int64(x.Bytes()))
		for bench.Loop() {
			b.ExactSquares(acc, x, nil)
		}
	})
}
