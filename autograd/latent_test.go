package autograd

import (
	"math"
	"testing"

	"trireme/tensor"
)

// slope is the central difference of f at each element of x.
func slope(x []float64, f func() float64) []float64 {
	const h = 1e-5
	d := make([]float64, len(x))
	for i := range x {
		was := x[i]
		x[i] = was + h
		up := f()
		x[i] = was - h
		down := f()
		x[i] = was
		d[i] = (up - down) / (2 * h)
	}
	return d
}

func (c *check) compact(name string, got, want []float64) {
	c.t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-7*(1+math.Abs(want[i])) {
			c.t.Fatalf("%s, element %d: gradient %v, differences %v", name, i, got[i], want[i])
		}
	}
}

// Gradients of logits equal those of expectations over all codes, computed from their definition.
// The table's are those of the sampled rows.
func TestCodeGradients(t *testing.T) {
	// One block; several blocks of codes; several of rows.
	for _, size := range [][3]int{{3, 4, 5}, {1, 14, 2}, {300, 2, 2}} {
		for _, exact := range []bool{true, false} {
			codesGoBack(t, size[0], size[1], size[2], exact)
		}
	}
}

func codesGoBack(t *testing.T, n, bits, d int, exact bool) {
	t.Helper()
	prob := func(l []float64, code int) float64 {
		p := 1.0
		for h, v := range l {
			q := 1 / (1 + math.Exp(-v))
			if code>>h&1 == 0 {
				q = 1 - q
			}
			p *= q
		}
		return p
	}
	c := newCheck(t)
	x, gx := c.leaf(n, bits)
	shape := []int{1 << bits, d}
	if !exact {
		shape = []int{d, bits}
	}
	w, gw := c.leaf(shape...)
	dy, first := c.random(n, d), c.numbers(n, 3)
	tape := NewTape(c.b, tensor.F64, true)
	var drawn []float64
	tape.Scope(func() *Var {
		l := tape.input(x)
		s := tape.Signs(l, tensor.RandKey{Seed: 1}, first)
		drawn = append(drawn, tensor.Host[float64](s.Value)...)
		y := tape.SignLinear
		if exact {
			y = tape.CodeTable
		}
		z := y(s, l, w)
		g := tape.alloc(n, d)
		c.b.Copy(g, dy)
		z.grad = &gradient{g, 1}
		return nil
	})
	tape.Backward()
	l, table, up := tensor.Host[float64](x.Value), tensor.Host[float64](w.Value), tensor.Host[float64](dy)
	value := func(row int, sign func(h int) float64, code int) float64 {
		sum := 0.0
		for j := range d {
			if exact {
				sum += up[row*d+j] * table[code*d+j]
				continue
			}
			for h := range bits {
				sum += up[row*d+j] * table[j*bits+h] * sign(h)
			}
		}
		return sum
	}
	c.compact("logits", tensor.Host[float64](gx), slope(l, func() float64 {
		sum := 0.0
		for row := range n {
			for code := range 1 << bits {
				sign := func(h int) float64 { return float64(code>>h&1)*2 - 1 }
				sum += prob(l[row*bits:(row+1)*bits], code) * value(row, sign, code)
			}
		}
		return sum
	}))
	c.compact("table", tensor.Host[float64](gw), slope(table, func() float64 {
		sum := 0.0
		for row := range n {
			code := 0
			for h := range bits {
				if drawn[row*bits+h] > 0 {
					code |= 1 << h
				}
			}
			sum += value(row, func(h int) float64 { return drawn[row*bits+h] }, code)
		}
		return sum
	}))
}

// A sign depends on logit, key, row id and bit only, and has the right frequency.
func TestSigns(t *testing.T) {
	const n = 6000
	odds := []float64{-2, 0, 1.5}
	c := newCheck(t)
	draw := func(first int64, rows int, seed uint64) (out []float64) {
		l := c.b.New(tensor.Activations, tensor.F64, rows, len(odds))
		for i := range tensor.Host[float64](l) {
			tensor.Host[float64](l)[i] = odds[i%len(odds)]
		}
		tape := NewTape(c.b, tensor.F64, false)
		tape.Scope(func() *Var {
			s := tape.Signs(Const(l), tensor.RandKey{Seed: seed, Stream: 5}, c.numbers(rows, first))
			out = append(out, tensor.Host[float64](s.Value)...)
			return nil
		})
		return out
	}
	all := draw(0, n, 1)
	for i, v := range draw(117, 50, 1) {
		if v != all[117*len(odds)+i] {
			t.Fatalf("element %d of rows from 117 is %v, among all rows %v", i, v, all[117*len(odds)+i])
		}
	}
	differ, ones := 0, make([]float64, len(odds))
	for i, v := range draw(0, n, 2) {
		if v != all[i] {
			differ++
		}
		if all[i] == 1 {
			ones[i%len(odds)]++
		} else if all[i] != -1 {
			t.Fatalf("sign %v", all[i])
		}
	}
	if differ < len(all)/10 {
		t.Errorf("another seed changes %d of %d signs", differ, len(all))
	}
	for k, l := range odds {
		p := 1 / (1 + math.Exp(-l))
		if d := math.Abs(ones[k]/n - p); d > 4*math.Sqrt(p*(1-p)/n) {
			t.Errorf("logit %v: frequency of 1 is %v, want %v", l, ones[k]/n, p)
		}
	}
}

func TestFreeBits(t *testing.T) {
	c := newCheck(t)
	x, gx := c.leaf(6, 3)
	labels := c.ints(2, 6)
	tensor.Host[int32](labels)[2] = -100
	run := func(grad, checkpoint bool) float64 {
		sums := c.b.New(tensor.Workspace, tensor.F64, 3)
		defer sums.Release()
		c.b.Fill(sums, 0)
		tape := NewTape(c.b, tensor.F64, grad)
		tape.Scope(func() *Var {
			f := func(t *Tape, l ...*Var) *Var {
				t.FreeBits(sums, l[0], labels, 0.3)
				return t.Add(l[0], l[0])
			}
			if in := tape.input(x); checkpoint {
				y := tape.Checkpoint(0, f, in)
				d := tape.alloc(y.Value.Shape()...)
				c.b.Fill(d, 0)
				y.grad = &gradient{d, 1}
			} else {
				f(tape, in)
			}
			return nil
		})
		tape.Backward()
		return tensor.Host[float64](sums)[0]
	}
	once := run(true, false)
	want := slope(tensor.Host[float64](x.Value), func() float64 { return run(false, false) })
	c.compact("logits", tensor.Host[float64](gx), want)
	if again := run(true, true); again != once {
		t.Errorf("recomputed: sums %v, want %v", again, once)
	}
	for i, v := range tensor.Host[float64](gx) {
		if math.Abs(v-2*want[i]) > 1e-6 {
			t.Fatalf("recomputed, element %d: gradient %v after %v", i, v-want[i], want[i])
		}
	}
}
