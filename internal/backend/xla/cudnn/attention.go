package cudnn

import (
	"fmt"

	"trireme/tensor"
)

// Attention is an attention over N rows of heads. Letters: B batch entries, T rows of each, M
// segments of each, H query heads, K key and value heads, E head size.
type Attention struct {
	tensor.AttentionParams
	DType     tensor.DType // of q, k, v and o
	Rows      int          // N
	Sequences int          // Starts.Elems()-1
	Docs      bool         // documents are masked within a sequence
	// Statistics adds the log-sum-exp to the results of Forward; Backward reads it.
	Statistics bool
	// Deterministic states that the program is compiled for the same bits in every run, by
	// xla_gpu_exclude_nondeterministic_ops or xla_gpu_deterministic_ops.
	Deterministic bool
}

// Device is a GPU with its cuDNN.
type Device struct {
	Major, Minor int // compute capability
	CuDNN        int // version, as 91002 for 9.10.2; 0 is unknown and passes every check
}

// Form is the arrangement of rows in a call.
type Form uint8

const (
	// Full is B sequences of T = SeqLen rows: the N rows, reshaped.
	Full Form = iota
	// Padded is B sequences of up to T rows. With one sequence these are the N rows; with several, row
	// i of sequence b is row Starts[b]+i of the N rows, and the emitter gathers and scatters. Rows after
	// a sequence's end are undefined in results.
	Padded
	// Packed is the N rows, reshaped to [B T], with the bounds of B*M segments. Rows outside of
	// segments are not written.
	Packed
)

// Shape is the arrangement of a call.
type Shape struct {
	Form
	B, T, M int // M is 1 unless Packed
}

// Shape returns the arrangement for a device. Packed needs Hopper.
func (a Attention) Shape(d Device) Shape {
	switch {
	case a.SeqLen > 0:
		return Shape{Full, a.Sequences, a.SeqLen, 1}
	case a.Sequences == 1:
		return Shape{Padded, 1, a.Rows, 1}
	case d.Major < 9:
		return Shape{Padded, a.Sequences, a.MaxSeqLen, 1}
	}
	b := 1 // the largest possible: statistics have B*M*T rows
	for n := min(a.Sequences, a.Rows/max(1, a.MaxSeqLen)); n > 1; n-- {
		if a.Rows%n == 0 {
			b = n
			break
		}
	}
	return Shape{Packed, b, a.Rows / b, max(2, (a.Sequences+b-1)/b)}
}

// Supported reports whether cuDNN has the attention, forward and backward, on a device; if not, why.
func Supported(a Attention, d Device) (ok bool, why string) {
	old := func(version int) bool { return d.CuDNN != 0 && d.CuDNN < version }
	s := a.Shape(d)
	maxE := 128
	if d.Major == 9 {
		maxE = 256
	}
	no := func(format string, args ...any) (bool, string) { return false, fmt.Sprintf(format, args...) }
	switch {
	case a.DType != tensor.BF16 && a.DType != tensor.F16:
		return no("cuDNN attention takes bfloat16 and float16, not %v", a.DType)
	case d.Major < 8:
		return no("cuDNN attention needs compute capability 8.0, this is %d.%d", d.Major, d.Minor)
	case old(90000):
		return no("XLA needs cuDNN 9.0 or newer for attention")
	case d.CuDNN == 91000 || d.CuDNN == 91001:
		return no("cuDNN refuses attention in version %s, because of bugs. try: 9.10.2 or newer", version(d.CuDNN))
	case d.Major == 10 && d.Minor == 3 && old(91100):
		return no("compute capability 10.3 needs cuDNN 9.11 for attention, this is %s", version(d.CuDNN))
	case a.Heads < 1 || a.KVHeads < 1 || a.Heads%a.KVHeads != 0:
		return no("%d query heads are not a multiple of %d key and value heads", a.Heads, a.KVHeads)
	case a.E < 1 || a.E%8 != 0 || a.E > maxE:
		return no("head size %d is not a multiple of 8 up to %d", a.E, maxE)
	case a.Dropout != 0:
		return no("cuDNN's dropout is not a function of the row's key: a program has one seed for all steps")
	case a.Docs:
		return no("cuDNN has no mask of documents within a sequence")
	case a.Rows < 1 || a.Sequences < 1 || a.MaxSeqLen < 1 || a.SeqLen > 0 && a.Sequences*a.SeqLen != a.Rows:
		return no("%d rows are not %d sequences of %d", a.Rows, a.Sequences, max(a.SeqLen, a.MaxSeqLen))
	case s.T == 1:
		return no("cuDNN has no backward of one row")
	case a.Window > 0 && !a.Causal:
		return no("cuDNN has a window for causal attention only")
	case a.Window > 0 && old(90200):
		return no("a window needs cuDNN 9.2, this is %s", version(d.CuDNN))
	case s.Form == Packed && old(90600) && a.Heads != a.KVHeads:
		return no("packed sequences with grouped heads need cuDNN 9.6, this is %s", version(d.CuDNN))
	case s.Form == Packed && a.Rows*a.Heads*a.E >= 1<<31:
		return no("%d rows of %d elements exceed 32-bit offsets", a.Rows, a.Heads*a.E)
	case a.Deterministic && d.Major == 10 && old(91800):
		return no("deterministic backward needs cuDNN 9.18 on compute capability %d.%d, this is %s", d.Major, d.Minor, version(d.CuDNN))
	case a.Deterministic && d.Major == 12 && s.Form == Packed:
		return no("cuDNN has no deterministic backward of packed sequences on compute capability %d.%d", d.Major, d.Minor)
	}
	return true, ""
}

func version(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }
