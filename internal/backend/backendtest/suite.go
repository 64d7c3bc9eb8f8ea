package backendtest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"trireme/internal/backend/naive"
	"trireme/tensor"
)

// Options describe a backend.
type Options struct {
	// CountsOnly is for backends without storage: only shapes and the meter are checked.
	CountsOnly bool
	// Only runs the calls whose names begin with it, and no other test.
	Only string
	// Program runs operations as one program, for backends that compile. All calls of an operation are
	// then one program, and the meter, which counts the backend's tensors alone, is not checked.
	Program func(operations func()) error
	// Few skips most sizes, sequences and lists, and all types of float operands but one mix.
	Few bool
	// Contracts states that a backend contracts products and sums (fused multiply-add), or not,
	// depending on the operations around them. Equal formulas then have equal numbers within the
	// tolerance, but not equal bits.
	Contracts bool
}

// Suite runs on several backends and caches the specification's results. All backends have the same
// native composites, and must have the same peak memory in each operation, so that a plan on one
// holds for another.
type Suite struct {
	want  map[string][][]float64
	peaks map[string]int64
}

// Run runs the suite and returns a digest of all computed bits, to compare settings that must not
// change them (threads, memory).
func (all *Suite) Run(t *testing.T, b tensor.Backend, o Options) string {
	t.Helper()
	if all.want == nil {
		all.want, all.peaks = map[string][][]float64{}, map[string]int64{}
	}
	s := &suite{name: t.Name(), b: b, Options: o, want: all.want, peaks: all.peaks}
	groups := map[string][]*trial{} // by operation
	for _, c := range cases() {
		if !strings.HasPrefix(c.name, o.Only) || o.Few && c.more {
			continue
		}
		for name, mix := range mixes {
			if c.plain && name != "float32" || c.large && name != "float32" && name != "mixed" {
				continue
			}
			if (testing.Short() || o.Few) && name != "mixed" && !c.plain {
				continue
			}
			tr := &trial{call: c, types: name, mix: mix}
			if o.Program != nil {
				op, _, _ := strings.Cut(c.name, "/")
				groups[op] = append(groups[op], tr)
				continue
			}
			t.Run(c.name+"/"+name, func(t *testing.T) { s.run(t, tr) })
		}
	}
	for op, trials := range groups {
		t.Run(op, func(t *testing.T) {
			for part := range slices.Chunk(trials, 32) {
				s.together(t, part)
			}
		})
	}
	if o.Only == "" {
		t.Run("normal", s.normal)
		t.Run("recompute", s.recompute)
		t.Run("exact", s.exact)
		t.Run("bytes", s.bytes)
		t.Run("shards", s.shards)
		t.Run("copy", s.copies)
	}
	slices.Sort(s.digests)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(s.digests, ""))))
}

// mixes are types of float operands, by operand index.
var mixes = map[string]func(i int) tensor.DType{
	"float32":  func(int) tensor.DType { return tensor.F32 },
	"bfloat16": func(int) tensor.DType { return tensor.BF16 },
	"float16":  func(int) tensor.DType { return tensor.F16 },
	"mixed3":   func(i int) tensor.DType { return [3]tensor.DType{tensor.F16, tensor.F32, tensor.BF16}[i%3] },
	"mixed":    func(i int) tensor.DType { return [2]tensor.DType{tensor.F32, tensor.BF16}[i%2] },
	"mixed2":   func(i int) tensor.DType { return [2]tensor.DType{tensor.BF16, tensor.F32}[i%2] },
}

type suite struct {
	Options
	name    string // of the caller
	b       tensor.Backend
	want    map[string][][]float64 // by call and types: elements of each operand
	peaks   map[string]int64       // and peak live bytes
	digests []string
}

// arg is an operand.
type arg struct {
	dt     tensor.DType
	float  bool // type from the mix
	shape  []int
	gaps   bool                              // strided rows
	writes bool                              // Out, InOut or Acc
	loose  bool                              // result not compared
	value  func(r *rand.Rand, i int) float64 // element i
}

func in(shape ...int) arg {
	return arg{float: true, shape: shape, value: func(r *rand.Rand, _ int) float64 { return r.NormFloat64() }}
}

func out(shape ...int) arg { a := in(shape...); a.writes = true; return a }

func (a arg) gapped() arg { a.gaps = true; return a }

func (a arg) of(dt tensor.DType) arg { a.float, a.dt = false, dt; return a }

func (a arg) unread() arg { a.loose = true; return a }

// between draws integers in [lo, hi).
func (a arg) between(lo, hi int) arg {
	a.value = func(r *rand.Rand, _ int) float64 { return float64(lo + r.IntN(hi-lo)) }
	return a
}

// like repeats these numbers.
func (a arg) like(v ...float64) arg {
	a.value = func(_ *rand.Rand, i int) float64 { return v[i%len(v)] }
	return a
}

// call is one operation with its operands.
type call struct {
	name  string
	args  []arg
	run   func(b tensor.Backend, x []*tensor.Tensor)
	plain bool // no operand's type is from the mix
	large bool // enough for several threads; not for all mixes
	more  bool // skipped by Options.Few
}

// trial is a call with operands of certain types.
type trial struct {
	call
	types     string
	mix       func(int) tensor.DType
	operands  []*operand
	got, want []*tensor.Tensor
	bytes     int64 // of all operands
	loosest   tensor.DType
}

// operand is an arg on both backends, inside a larger tensor of guards.
type operand struct {
	arg
	got, want    *tensor.Tensor
	whole, exact *tensor.Tensor
	before       []byte
	at           []int // index of each element in whole
}

// margin is the number of guards before and after a contiguous operand. It is odd, so operands are
// unaligned.
const margin = 3

func (s *suite) operand(spec tensor.Backend, a arg, rng *rand.Rand) *operand {
	x := &operand{arg: a}
	elems := tensor.Shape(a.shape).Elems()
	view := func(t *tensor.Tensor) *tensor.Tensor { return t.Flat(margin, margin+elems).Reshape(a.shape...) }
	size := []int{elems + 2*margin}
	if a.gaps {
		r, w := a.shape[0], a.shape[1]
		size = []int{r + 2, w + 5}
		view = func(t *tensor.Tensor) *tensor.Tensor { return t.RowRange(1, r+1).Cols(2, w+2) }
		for i := range r {
			for j := range w {
				x.at = append(x.at, (i+1)*(w+5)+2+j)
			}
		}
	} else {
		for i := range elems {
			x.at = append(x.at, margin+i)
		}
	}
	x.whole, x.exact = s.b.New(tensor.Activations, a.dt, size...), spec.New(tensor.Activations, exactType(a.dt), size...)
	values := make([]float64, tensor.Shape(size).Elems())
	for i := range values {
		values[i] = -77 // the guard
	}
	for k, i := range x.at {
		values[i] = round(a.dt, a.value(rng, k))
	}
	if a.dt == tensor.U8 {
		for i := range values {
			values[i] = math.Abs(values[i])
		}
	}
	x.before = encode(a.dt, values)
	s.b.Upload(x.whole, x.before)
	spec.Upload(x.exact, encode(x.exact.DType(), values))
	x.got, x.want = view(x.whole), view(x.exact)
	return x
}

// allocate makes the operands on both backends.
func (s *suite) allocate(tr *trial, spec tensor.Backend) {
	rng := rand.New(rand.NewPCG(uint64(len(tr.name)), 5))
	tr.loosest = tensor.F32
	for i, a := range tr.args {
		if a.float {
			a.dt = tr.mix(i)
		}
		if a.dt == tensor.BF16 || a.dt == tensor.F16 && tr.loosest == tensor.F32 {
			tr.loosest = a.dt
		}
		x := s.operand(spec, a, rng)
		tr.operands, tr.got, tr.want = append(tr.operands, x), append(tr.got, x.got), append(tr.want, x.want)
		tr.bytes += int64(x.whole.Bytes())
	}
}

// check compares the results of a trial with the specification's, and frees the operands.
func (s *suite) check(t *testing.T, tr *trial, spec tensor.Backend) {
	t.Helper()
	name := tr.name + "/" + tr.types
	if !s.CountsOnly {
		if s.want[name] == nil {
			tr.run(spec, tr.want)
			for _, x := range tr.operands {
				s.want[name] = append(s.want[name], x.elements(spec))
			}
		}
		for i, x := range tr.operands {
			s.compare(t, fmt.Sprintf("operand %d (%v %v)", i, x.dt, x.shape), x, s.want[name][i], tr.loosest, tr.name)
		}
	}
	for _, x := range tr.operands {
		x.whole.Release()
	}
}

// together runs trials as one program.
func (s *suite) together(t *testing.T, trials []*trial) {
	spec := naive.New()
	for _, tr := range trials {
		s.allocate(tr, spec)
	}
	err := s.Program(func() {
		for _, tr := range trials {
			tr.run(s.b, tr.got)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range trials {
		t.Run(tr.name+"/"+tr.types, func(t *testing.T) { s.check(t, tr, spec) })
	}
}

// run compares one call on both backends.
func (s *suite) run(t *testing.T, tr *trial) {
	t.Helper()
	spec := naive.New()
	rest := s.b.Meter().Read()
	s.allocate(tr, spec)
	s.b.Meter().ResetPeak()
	tr.run(s.b, tr.got)
	s.b.Sync()
	use := s.b.Meter().Read()
	if live := use.LiveTotal - rest.LiveTotal; live != tr.bytes || use.Live[tensor.Activations]-rest.Live[tensor.Activations] != tr.bytes {
		t.Errorf("%d live bytes after the call, %d before", live, tr.bytes)
	}
	name, peak := tr.name+"/"+tr.types, use.PeakTotal-rest.LiveTotal
	if other, ok := s.peaks[name]; ok && peak != other {
		t.Errorf("peak of %d live bytes, on another backend %d", peak, other)
	}
	s.peaks[name] = peak
	s.check(t, tr, spec)
	if live := s.b.Meter().Read().LiveTotal; live != rest.LiveTotal {
		t.Errorf("%d live bytes after all releases, %d before", live, rest.LiveTotal)
	}
}

// tolerance of a call in float32: relative to each number, and to a fraction of the largest.
func tolerance(call string) (tol, beside float64) {
	switch op, _, _ := strings.Cut(call, "/"); {
	case strings.HasPrefix(op, "attention"), op == "update": // small differences of large numbers
		return 1e-5, 0.2
	case op == "gather rows":
		return 0, 0
	case strings.HasPrefix(op, "rope"):
		return 1e-6, 0.1
	case strings.HasPrefix(op, "cross entropy"):
		return 2e-6, 0.1
	}
	return 3e-6, 0.1
}

// within returns the comparison of a call's numbers, with operands up to a type and results up to top.
func within(call string, loosest tensor.DType, top float64) func(got, want float64) bool {
	tol, beside := tolerance(call)
	if loosest == tensor.BF16 {
		tol = 2e-2
	} else if loosest == tensor.F16 {
		tol = 4e-3
	}
	return func(g, w float64) bool {
		return g == w || math.IsNaN(g) && math.IsNaN(w) || math.Abs(g-w) <= tol*(math.Abs(w)+beside*top)
	}
}

// same reports whether two results of one formula have the same bits, or near numbers if the backend
// contracts.
func (s *suite) same(call string, dt tensor.DType, got, want []byte) bool {
	if bytes.Equal(got, want) || !s.Contracts {
		return bytes.Equal(got, want)
	}
	g, w := decode(dt, got), decode(dt, want)
	top := 0.1
	for _, v := range w {
		top = max(top, math.Abs(v))
	}
	near := within(call, dt, top)
	for i := range w {
		if !near(g[i], w[i]) {
			return false
		}
	}
	return true
}

// compare checks an operand's numbers, and its guards.
func (s *suite) compare(t *testing.T, what string, x *operand, want []float64, loosest tensor.DType, call string) {
	t.Helper()
	now := make([]byte, len(x.before))
	s.b.Download(now, x.whole)
	if !x.writes {
		if !bytes.Equal(now, x.before) {
			t.Errorf("%s is an input, but was changed", what)
		}
		return
	}
	got, guards := decode(x.dt, now), decode(x.dt, x.before)
	inside, top := make([]bool, len(got)), 0.1
	for k, i := range x.at {
		inside[i] = true
		if !math.IsInf(want[k], 0) {
			top = max(top, math.Abs(want[k]))
		}
	}
	for i := range got {
		if !inside[i] && math.Float64bits(got[i]) != math.Float64bits(guards[i]) {
			t.Errorf("%s: guard %d was overwritten", what, i)
			return
		}
	}
	if x.loose {
		return
	}
	near := within(call, loosest, top)
	for k, i := range x.at {
		g, w := got[i], want[k]
		if !near(g, w) {
			t.Errorf("%s, element %d: %v, want %v", what, k, g, w)
			return
		}
	}
	s.digest(t, now)
}

// digest adds bits to the suite's digest.
func (s *suite) digest(t *testing.T, bits []byte) {
	name := strings.TrimPrefix(t.Name(), s.name)
	sum := sha256.Sum256(bits)
	s.digests = append(s.digests, name+string(sum[:]))
}

// elements are the operand's numbers on the specification.
func (x *operand) elements(spec tensor.Backend) []float64 {
	b := make([]byte, x.exact.Bytes())
	spec.Download(b, x.exact)
	all := decode(x.exact.DType(), b)
	out := make([]float64, len(x.at))
	for k, i := range x.at {
		out[k] = all[i]
	}
	return out
}

// exactType is the specification's type for dt.
func exactType(dt tensor.DType) tensor.DType {
	switch dt {
	case tensor.F32, tensor.BF16, tensor.F16:
		return tensor.F64
	}
	return dt
}
