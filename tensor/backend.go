package tensor

// Backend computes on tensors of one device: by the operations of Core, and by composites. A
// composite stands for the formula that package compose writes in operations of Core; a backend
// has those of its own that pay, and embeds compose.Ops for the others. Calls are in order as
// seen by one goroutine; a backend may run behind the caller, and only Download and Sync wait.
// Different goroutines may call at the same time on tensors that do not overlap. Misuse (shapes,
// types, gaps that an operation does not take) panics, naming the operation and the shapes.
//
// Unless an operation says otherwise: tensors are contiguous; dst does not overlap what is
// read; F32, BF16 and F16 may be mixed, arithmetic is in F32; results do not depend on the
// number of threads nor on where in memory, or in which shard, an element lies.
type Backend interface {
	Core
	Random
	Pointwise
	Norms
	Attention
	Lookup
	Reductions
	Optimizers
}

// In the signatures of operations an Out is written and not read; an InOut is read and written; an
// Acc is an InOut where the operation is told to accumulate, and otherwise an Out. Every other
// tensor is only read. Backends that record take the names from here (internal/backend/record).
type (
	Out   = *Tensor
	InOut = *Tensor
	Acc   = *Tensor
)

// Memory makes tensors, and moves them to and from the host.
type Memory interface {
	// Name is the device's name, for example cpu.
	Name() string
	// New makes a tensor with undefined contents in a buffer of its own.
	New(cat Category, dt DType, shape ...int) *Tensor
	// Meter counts what New has given out.
	Meter() *Meter
	// Upload copies from the host; len(src) is dst.Bytes().
	Upload(dst Out, src []byte)
	// Download copies to the host when everything before it is done.
	Download(dst []byte, src *Tensor)
	// Sync waits until everything before it is done.
	Sync()
	// Barrier changes nothing. To a backend that compiles what it records, what reads ts afterwards
	// is another value than what read them before: it is computed again where it is asked for again
	// (a recomputed forward, a second gather), and not before all of ts are there.
	Barrier(ts ...InOut)
}

// Random makes numbers that depend on a key and an index only, so that a shard can be made alone.
type Random interface {
	// Words: each element of dst (I64) is the element of the key's stream whose number is in its
	// place in at (I64), and lies in [0, 2^32).
	Words(dst Out, at *Tensor, key RandKey)
	// Normal fills elements first, first+1, ... of the normal distribution with mean 0 and
	// the given standard deviation that key names.
	Normal(dst Out, key RandKey, first int64, std float64)
}

// IsMeta says whether b keeps no contents of its tensors: what would fill them need not be made.
func IsMeta(b Memory) bool {
	h, ok := b.(interface{ IsMeta() bool })
	return ok && h.IsMeta()
}

// Static says whether b records what it is asked to compute as a program of fixed shapes, so that
// another shape is another program. Lengths that the data decides are rounded up then, by Bucket.
func Static(b Memory) bool {
	s, ok := b.(interface{ Static() bool })
	return ok && s.Static()
}

// Bucket is the length that stands for n, 0 <= n <= most, on b: n itself or, where shapes are
// static, the next of a few lengths: powers of 2 from 16 on and those halfway between them, and
// most. The caller makes elements beyond n that change no result.
func Bucket(b Memory, n, most int) int {
	if !Static(b) {
		return n
	}
	size := 16
	for size < n && size+size/2 < n {
		size *= 2
	}
	if size < n {
		size += size / 2
	}
	return min(size, most)
}

// RandKey names a stream of counter-based random numbers (Philox4x32-10 keyed by Seed, with
// Stream in the upper half of the counter). Element e of the stream is word e%4 at counter e/4;
// dropout with probability p drops the elements that are below p * 2^32.
type RandKey struct{ Seed, Stream uint64 }

// Pointwise operations work element by element.
type Pointwise interface {
	// AddBias: dst [N D] = x [N D] + bias [D]. dst may be x.
	AddBias(dst Out, x, bias *Tensor)
	// BiasGrad: dbias [D] (+)= sum over rows of dy [N D].
	BiasGrad(dbias Acc, dy *Tensor, accumulate bool)
	// Add: dst = a + b; dst may be a or b.
	Add(dst Out, a, b *Tensor)
	// AddScaled: dst += s * src, each product rounded before the sum when s is not 1.
	AddScaled(dst InOut, src *Tensor, s float64)
	// ScaleBy: dst = x * factor[0], a factor (F64 [1]) that is itself computed. dst may be x.
	ScaleBy(dst Out, x, factor *Tensor)
	// SwiGLU: dst [N F] = silu(gate) * up. gate and up are [N F] and may have row gaps.
	SwiGLU(dst Out, gate, up *Tensor)
	// SwiGLUBackward: dgate and dup [N F] from dy [N F]; row gaps are honoured. dgate, dup
	// may be gate, up.
	SwiGLUBackward(dgate, dup Out, dy, gate, up *Tensor)
	// GELU: dst = gelu(x), by tanh's approximation or by erf.
	GELU(dst Out, x *Tensor, tanh bool)
	// GELUBackward: dx = dy * gelu'(x). dx may be dy.
	GELUBackward(dx Out, dy, x *Tensor, tanh bool)
	// Tanh: dst = tanh(x). dst may be x.
	Tanh(dst Out, x *Tensor)
	// TanhBackward: dx = dy * (1 - y^2), where y is tanh(x). dx may be dy.
	TanhBackward(dx Out, dy, y *Tensor)
	// Dropout: dst = x/(1-p), or 0 where the element is dropped (Srivastava et al. 2014), which
	// is its own derivative. Element d of row n of x [N D] is element rows[n]*D + d of the
	// key's stream; rows is I64 [N]. 0 <= p < 1. Row gaps are honoured; dst may be x.
	Dropout(dst Out, x *Tensor, key RandKey, rows *Tensor, p float64)
	// Rope rotates halves of each head (Su et al. 2021, as Hugging Face lays it out): x is
	// [N H*E] and may have row gaps, cos and sin are [P E/2], row n uses position
	// positions[n] (I32 [N]). inverse rotates back. dst may be x.
	Rope(dst Out, x, cos, sin, positions *Tensor, headDim int, inverse bool)
}

// Norms are normalisations over the last dimension.
type Norms interface {
	// RMSNorm: y = x * rstd * w, rstd [N] = 1/sqrt(mean(x^2)+eps) in F32. With res not nil
	// x+res is normalised instead and written to sum.
	RMSNorm(y, rstd, sum Out, x, res, w *Tensor, eps float64)
	// RecomputeRMSNorm: y = x * rstd * w, with the bits that RMSNorm gave.
	RecomputeRMSNorm(y Out, x, rstd, w *Tensor)
	// RMSNormBackward: dx = (dres, where not nil) + gradient; dw [D] (+)= gradient, where
	// not nil. dx may be dy or dres.
	RMSNormBackward(dx Out, dw Acc, dy, dres, x, rstd, w *Tensor, accumulate bool)
	// LayerNorm: y = (x-mean)*rstd*w + b. With res not nil x+res is normalised and written to sum.
	LayerNorm(y, mean, rstd, sum Out, x, res, w, b *Tensor, eps float64)
	// RecomputeLayerNorm: y as LayerNorm gave it.
	RecomputeLayerNorm(y Out, x, mean, rstd, w, b *Tensor)
	// LayerNormBackward is to LayerNorm as RMSNormBackward is to RMSNorm.
	LayerNormBackward(dx Out, dw, db Acc, dy, dres, x, mean, rstd, w *Tensor, accumulate bool)
	// HeadRMSNorm is RMSNorm of each head of x [N H*E], all by the same w [E]; rstd is F32
	// [N H]. Row gaps of x and y are honoured; y may be x.
	HeadRMSNorm(y, rstd Out, x, w *Tensor, headDim int, eps float64)
	// HeadRMSNormBackward: dx = gradient, and dw [E] (+)= gradient, where not nil, summed over
	// rows and heads. Row gaps of dx, dy and x are honoured; dx may be dy.
	HeadRMSNormBackward(dx Out, dw Acc, dy, x, rstd, w *Tensor, headDim int, accumulate bool)
}

// AttentionParams describes attention over N rows, which are B sequences end to end.
type AttentionParams struct {
	// Starts (I32 [B+1], ascending from 0) are the sequences' bounds: b has the rows from Starts[b]
	// to before Starts[b+1]. Rows from Starts[B] on belong to none: they see nothing and nobody
	// sees them.
	Starts *Tensor
	// MaxSeqLen is a bound on the rows of a sequence, the same for every batch of a program.
	MaxSeqLen         int
	Heads, KVHeads, E int     // query head h reads key and value head h / (Heads/KVHeads)
	Scale             float64 // of the scores, usually 1/sqrt(E)
	Causal            bool    // position i of a sequence sees j <= i
	Window            int     // and j > i-Window, where Window > 0

	// Dropout is the probability with which an element of the softmax is dropped, others being
	// divided by 1-Dropout. Of row n, head h and key j of the sequence it is element
	// (Rows[n]*Heads + h)*MaxSeqLen + j of Key's stream (see Pointwise.Dropout). Rows (I64 [N])
	// counts up by 1 within a sequence. With 0 Key and Rows are not read.
	Dropout float64
	Key     RandKey
	Rows    *Tensor
}

// Attention never stores scores of all pairs of rows. Its work follows the squares of the
// sequences' lengths.
type Attention interface {
	// Attention: o [N H*E], lse [H N] (log-sum-exp of the scaled scores, F32). q is
	// [N H*E], k and v are [N K*E]; row gaps are honoured. docs (I32 [N], or nil)
	// keeps positions of different documents of a sequence apart. A position that sees nothing
	// gives 0. An element does not depend on what other sequences there are.
	Attention(o, lse Out, q, k, v, docs *Tensor, p AttentionParams)
	// AttentionBackward writes dq, dk, dv (row gaps are honoured) from do.
	AttentionBackward(dq, dk, dv Out, do, o, lse, q, k, v, docs *Tensor, p AttentionParams)
	// AttentionDecode: o [1 H*E] of the newest row's queries q [1 H*E] over the keys and values of
	// all rows up to and with it, k and v [P K*E]; row gaps are honoured. Of p, Heads, KVHeads, E,
	// Scale and Window count.
	AttentionDecode(o Out, q, k, v *Tensor, p AttentionParams)
}

// Lookup is the loss over a vocabulary, and rows by their numbers.
type Lookup interface {
	// ScatterRows moves row i of x [N D] to row at[i] (I32 [M], ascending, at[i] >= i), from the last
	// on, and makes rows that none is moved to 0. The last rows go nowhere where at[i] < i. Row gaps
	// are honoured.
	ScatterRows(x InOut, at *Tensor)
	// CrossEntropy replaces logits [N V] by their gradient, softmax - onehot(label), and adds
	// the rows' losses in order to loss (F64 [1]). Labels are I32 [N]; a row with a negative
	// label gives no loss and a gradient of 0. With grad false logits are left undefined.
	CrossEntropy(loss, logits InOut, labels *Tensor, grad bool)
	// CountClasses takes each row of logits [N C] for the class of its largest logit (the first
	// of several) and, where its label (I32 [N]) is not negative, adds 1 to counts (F64 [3 C]):
	// at the label where the class is right, at C + class, and at 2C + label.
	CountClasses(counts InOut, logits, labels *Tensor)
}

// ExactWords is the length of an exact accumulator: an I64 tensor that stands for a sum of
// F64 numbers without rounding, in words of 32 bits that each leave room for carries, and a
// last word that counts numbers that are not finite or larger than the words cover. Accumulators
// of several ranks add up word by word, in any order, so sums do not depend on how they were
// divided. The words cover 2^-352 to 2^320: squares and sums of F32 numbers.
const ExactWords = 22

// SumBlock is the number of elements whose squares are summed in F64 before they enter an
// exact accumulator. Slices that are summed apart begin at multiples of it.
const SumBlock = 64

// Reductions make a few numbers of many.
type Reductions interface {
	// ExactSquares adds the sum of squares of x to acc (I64 [ExactWords]). With ends (I64 [n], as
	// in Update, but multiples of SumBlock) acc is n accumulators, of the groups that end there.
	ExactSquares(acc InOut, x, ends *Tensor)
	// ExactAdd adds the elements of x (F64) to acc.
	ExactAdd(acc InOut, x *Tensor)
	// ExactValues: out (F64 [n]) = the nearest numbers to the n accumulators acc (I64 [n
	// ExactWords]); NaN where a number was not finite.
	ExactValues(out Out, acc *Tensor)
	// StepScalars turns what all ranks summed into the step's numbers. squares and loss are
	// exact accumulators, tokens is I64 [1]. out (F64 [ScalarCount]) is described by Scalar*.
	// maxNorm (F64 [1]) is a limit of the gradient's norm; 0 or less is none. begin (F64 [1], or
	// nil: 1) is what the loss's own gradient began as, so that gradients are that much larger.
	StepScalars(out Out, squares, loss, tokens, maxNorm, begin *Tensor)
}

// Indices into the result of StepScalars.
const (
	ScalarLoss     = iota // mean loss of a counted token
	ScalarGradNorm        // norm of the mean gradient, before clipping
	ScalarScale           // what a summed gradient is multiplied by: 1/(tokens*begin) * min(1, max/(norm+1e-6))
	ScalarApply           // 1, or 0 where the norm or the loss is not finite and the step is to be skipped
	ScalarTokens          // counted tokens
	ScalarCount
)

// Indices into the state of a loss scaler (F64 [LossScaleCount]).
const (
	LossScaleGrad       = iota // what the gradient of the summed loss begins as: scale * LossScaleParams.Unit
	LossScaleScale             // of the mean loss
	LossScaleGoodSteps         // steps in a row without an overflow, since the scale grew or fell
	LossScaleHysteresis        // overflows left until the scale falls, the one that it falls at included
	LossScaleCount
)

// LossScaleParams are the constants of a dynamic loss scaler.
type LossScaleParams struct {
	Growth      float64 // the scale times this after Window good steps in a row
	Backoff     float64 // and times this, but no less than Min, at an overflow
	Min         float64
	Window      int
	Hysteresis  int     // the scale falls at the Hysteresis-th overflow and each later one, until the count begins anew
	Consecutive bool    // it begins anew with each good step, and not only where the scale grows
	Unit        float64 // LossScaleGrad of a scale of 1
}

// Optimizers update parameters.
type Optimizers interface {
	// Update changes p (F32 [n]) and its state by the rule and the summed gradient g (F32, BF16 or
	// F16 [n]) times scalars[ScalarScale], unless scalars[ScalarApply] is 0. Elements lie in
	// groups: group i ends before element ends[i] (I64 [groups], ascending, the last n) and takes
	// row i of hyper (F64 [groups, at least rule.Inputs()]). State tensors are F32, BF16 or F16
	// [n]; arithmetic is in F32. Or they are U8 [n], each a byte of DynamicMap, and the same
	// number of scales follows (F32, one for each StateBlock elements, the last of which may be
	// fewer); groups then begin at multiples of StateBlock.
	Update(rule UpdateRule, p InOut, state []InOut, g, ends, hyper, scalars *Tensor)
	// UpdateLossScale moves a loss scaler's state (F64 [LossScaleCount]) on after a step. The
	// step overflowed where scalars[ScalarApply] is 0 though it counted tokens. The scale stays
	// a number that F32 holds.
	UpdateLossScale(state InOut, scalars *Tensor, p LossScaleParams)
}
