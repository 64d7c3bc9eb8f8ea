package tensor

// Backend computes on tensors of one device, by the operations of Core and by composites. Package
// compose defines every composite as a formula in operations of Core; a backend implements some
// natively and embeds compose.Ops for the rest. Calls from one goroutine run in order. A backend
// may run asynchronously; only Download and Sync wait. Several goroutines may call at once on
// tensors that do not overlap. Misuse (shapes, types, strides) panics with the operation and the
// shapes.
//
// Unless an operation says otherwise, tensors are contiguous, dst does not overlap inputs, F32,
// BF16 and F16 may be mixed, and arithmetic is in F32. Results do not depend on the number of
// threads, the address or the shard.
type Backend interface {
	Core
	Random
	Pointwise
	Norms
	Attention
	Lookup
	Quantized
	Reductions
	Optimizers
}

// Out is written and not read, InOut is read and written. Acc is InOut if the operation
// accumulates, else Out. All other tensors are inputs. internal/backend/record generates its
// methods from these names.
type (
	Out   = *Tensor
	InOut = *Tensor
	Acc   = *Tensor
)

// Memory allocates tensors and copies them to and from the host.
type Memory interface {
	// Name is the device's name, such as cpu.
	Name() string
	// New allocates a tensor with undefined contents.
	New(cat Category, dt DType, shape ...int) *Tensor
	// Meter counts the memory of New.
	Meter() *Meter
	// Upload copies from the host. len(src) is dst.Bytes().
	Upload(dst Out, src []byte)
	// Download copies to the host after all earlier operations.
	Download(dst []byte, src *Tensor)
	// Sync waits for all earlier operations.
	Sync()
	// Barrier keeps a compiling backend from merging operations across it, like an optimization
	// barrier in XLA: later reads of ts see new values, available once all of ts are. Recomputed
	// forwards and repeated all-gathers need it. It changes no element.
	Barrier(ts ...InOut)
}

// Random is counter-based: numbers depend on key and index only, so each rank can generate its
// shard.
type Random interface {
	// Words: dst = elements at (both I64) of the key's stream, each in [0, 2^32).
	Words(dst Out, at *Tensor, key RandKey)
	// Normal fills dst with elements first, first+1, ... of the key's normal distribution with mean
	// 0 and standard deviation std.
	Normal(dst Out, key RandKey, first int64, std float64)
}

// IsMeta reports whether b's tensors have no storage, like PyTorch's meta device. Callers can skip
// initialization.
func IsMeta(b Memory) bool {
	h, ok := b.(interface{ IsMeta() bool })
	return ok && h.IsMeta()
}

// Static reports whether b compiles programs of fixed shapes. Bucket then rounds up data-dependent
// lengths.
func Static(b Memory) bool {
	s, ok := b.(interface{ Static() bool })
	return ok && s.Static()
}

// Async reports whether b's programs run while the host goes on.
func Async(b Memory) bool {
	a, ok := b.(interface{ Async() bool })
	return ok && a.Async()
}

// BlockBytes is the memory in bytes of a block of rows, for operations that compute large intermediate results
// such as logits in blocks. Backends on devices with more memory and faster products have larger blocks.
func BlockBytes(b Memory) int {
	if s, ok := b.(interface{ BlockBytes() int }); ok {
		return s.BlockBytes()
	}
	return DefaultBlockBytes
}

// DefaultBlockBytes is BlockBytes of backends that do not choose.
const DefaultBlockBytes = 32 << 20

// Bucket rounds n, 0 <= n <= limit, up to a bucket if b has static shapes: a power of 2 from 16, a
// midpoint between two, or limit. Elsewhere it returns n. The caller pads such that no result
// changes.
func Bucket(b Memory, n, limit int) int {
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
	return min(size, limit)
}

// RandKey identifies a stream of counter-based random numbers: Philox4x32-10 keyed by Seed, with
// Stream in the upper half of the counter. Element e is word e%4 at counter e/4. Dropout with
// probability p drops elements below p * 2^32.
type RandKey struct{ Seed, Stream uint64 }

// Pointwise operations are element-wise.
type Pointwise interface {
	// AddBias: dst [N D] = x [N D] + bias [D]. dst may be x.
	AddBias(dst Out, x, bias *Tensor)
	// BiasGrad: dbias [D] (+)= sum over rows of dy [N D].
	BiasGrad(dbias Acc, dy *Tensor, accumulate bool)
	// Add: dst = a + b. dst may be a or b.
	Add(dst Out, a, b *Tensor)
	// AddScaled: dst += s * src. Each product is rounded before the sum unless s is 1.
	AddScaled(dst InOut, src *Tensor, s float64)
	// ScaleBy: dst = x * factor[0] (F64 [1]). dst may be x.
	ScaleBy(dst Out, x, factor *Tensor)
	// SwiGLU: dst [N F] = silu(gate) * up. gate and up [N F] may have strided rows.
	SwiGLU(dst Out, gate, up *Tensor)
	// SwiGLUBackward: dgate and dup [N F] from dy [N F]. Rows may be strided. dgate, dup may be
	// gate, up.
	SwiGLUBackward(dgate, dup Out, dy, gate, up *Tensor)
	// GELU: dst = gelu(x), with the tanh approximation or exact (erf).
	GELU(dst Out, x *Tensor, tanh bool)
	// GELUBackward: dx = dy * gelu'(x). dx may be dy.
	GELUBackward(dx Out, dy, x *Tensor, tanh bool)
	// Tanh: dst = tanh(x). dst may be x.
	Tanh(dst Out, x *Tensor)
	// TanhBackward: dx = dy * (1 - y^2), y = tanh(x). dx may be dy.
	TanhBackward(dx Out, dy, y *Tensor)
	// Dropout: dst = x/(1-p), or 0 for dropped elements (Srivastava et al. 2014). It is its own
	// derivative. x [N D] at (n, d) uses element rows[n]*D + d of the key's stream; rows is I64
	// [N]. 0 <= p < 1. Rows may be strided. dst may be x.
	Dropout(dst Out, x *Tensor, key RandKey, rows *Tensor, p float64)
	// Rope rotates halves of each head (Su et al. 2021, in Hugging Face's layout). x [N H*E] may
	// have strided rows, cos and sin are [P E/2], positions is I32 [N]. inverse rotates backward.
	// dst may be x.
	Rope(dst Out, x, cos, sin, positions *Tensor, headDim int, inverse bool)
}

// Norms normalize over the last dimension.
type Norms interface {
	// RMSNorm: y = x * rstd * w, rstd [N] = 1/sqrt(mean(x^2)+eps) in F32. With res, it normalizes
	// x+res and writes that to sum.
	RMSNorm(y, rstd, sum Out, x, res, w *Tensor, eps float64)
	// RecomputeRMSNorm: y = x * rstd * w, with the bits of RMSNorm.
	RecomputeRMSNorm(y Out, x, rstd, w *Tensor)
	// RMSNormBackward: dx = dres (or 0) + gradient, and dw [D] (+)= gradient if not nil. dx may be
	// dy or dres.
	RMSNormBackward(dx Out, dw Acc, dy, dres, x, rstd, w *Tensor, accumulate bool)
	// LayerNorm: y = (x-mean)*rstd*w + b. With res, it normalizes x+res and writes that to sum.
	LayerNorm(y, mean, rstd, sum Out, x, res, w, b *Tensor, eps float64)
	// RecomputeLayerNorm: y with the bits of LayerNorm.
	RecomputeLayerNorm(y Out, x, mean, rstd, w, b *Tensor)
	// LayerNormBackward is RMSNormBackward for LayerNorm.
	LayerNormBackward(dx Out, dw, db Acc, dy, dres, x, mean, rstd, w *Tensor, accumulate bool)
	// HeadRMSNorm is RMSNorm of each head of x [N H*E] with one w [E]. rstd is F32 [N H]. Rows of x
	// and y may be strided. y may be x.
	HeadRMSNorm(y, rstd Out, x, w *Tensor, headDim int, eps float64)
	// HeadRMSNormBackward: dx = gradient, and dw [E] (+)= gradient if not nil, summed over rows and
	// heads. Rows of dx, dy and x may be strided. dx may be dy.
	HeadRMSNormBackward(dx Out, dw Acc, dy, x, rstd, w *Tensor, headDim int, accumulate bool)
}

// AttentionParams describes attention over N rows: B sequences, end to end.
type AttentionParams struct {
	// Starts (I32 [B+1], ascending from 0) are cumulative sequence lengths: sequence b is rows
	// [Starts[b], Starts[b+1]). Rows from Starts[B] on are padding, masked in both directions.
	Starts *Tensor
	// MaxSeqLen bounds the rows of a sequence, for every batch of a program.
	MaxSeqLen int
	// SeqLen > 0: every sequence has this number of rows and none is padding, so a backend may see N
	// rows as [B SeqLen]. 0: Starts has the lengths.
	SeqLen            int
	Heads, KVHeads, E int     // query head h uses key and value head h / (Heads/KVHeads)
	Scale             float64 // softmax scale, usually 1/sqrt(E)
	Causal            bool    // position i attends to j <= i
	Window            int     // and to j > i-Window if Window > 0

	// Dropout is the dropout probability of softmax elements. Row n, head h, key j uses element
	// (Rows[n]*Heads + h)*MaxSeqLen + j of Key's stream (see Pointwise.Dropout). Rows (I64 [N])
	// counts up by 1 within a sequence. If Dropout is 0, Key and Rows are ignored.
	Dropout float64
	Key     RandKey
	Rows    *Tensor
}

// Attention never materializes all scores. Its work grows with the squares of sequence lengths.
type Attention interface {
	// Attention: o [N H*E] and lse [H N] (log-sum-exp of the scaled scores, F32) of q [N H*E] and
	// k, v [N K*E]. Rows may be strided. docs (I32 [N], or nil) masks other documents in a
	// sequence. A fully masked row gives 0. Results do not depend on the other sequences of the
	// batch.
	Attention(o, lse Out, q, k, v, docs *Tensor, p AttentionParams)
	// AttentionBackward: dq, dk, dv from do. Rows may be strided.
	AttentionBackward(dq, dk, dv Out, do, o, lse, q, k, v, docs *Tensor, p AttentionParams)
	// AttentionDecode: o [1 H*E] of the query q [1 H*E] of position at[0] (I32 [1]) over keys and
	// values k, v [P K*E] of positions up to at[0]. Later rows are not used, whatever they hold. Rows
	// may be strided. Of p it uses Heads, KVHeads, E, Scale and Window.
	AttentionDecode(o Out, q, k, v, at *Tensor, p AttentionParams)
}

// Lookup is losses over a vocabulary, and moves of rows.
type Lookup interface {
	// ScatterRows moves row i of x [N D] to row at[i] (I32 [M], ascending, at[i] >= i), last row
	// first, and sets all other rows to 0. Rows with at[i] < i at the end of the list are ignored.
	// Rows may be strided.
	ScatterRows(x InOut, at *Tensor)
	// CrossEntropy replaces logits [N V] by their gradient, softmax - onehot(label), and adds the
	// losses in row order to loss (F64 [1]). A row with a negative label (I32 [N]) has no loss and
	// gradient 0. Without grad, logits are undefined afterwards.
	CrossEntropy(loss, logits InOut, labels *Tensor, grad bool)
	// CountClasses predicts for each row of logits [N C] the class of the largest logit (the first
	// of several). For each label (I32 [N]) that is not negative it adds 1 to counts (F64 [3 C]) at
	// the label if the prediction is right, at C + prediction, and at 2C + label.
	CountClasses(counts InOut, logits, labels *Tensor)
}

// Quantized operations read 8-bit values: a matrix w [N K] of weights (U8, two's complement) with a scale for each
// QuantBlock columns of a row: scales F32 [N QuantBlocks(K)]. See Quantize.
type Quantized interface {
	// MatMulQuantized: dst [M N] = x [M K] * w^T. Rows of dst and x may be strided. Sums are in F32. A
	// backend may round weights to x's type if M > 1.
	MatMulQuantized(dst Out, x, w, scales *Tensor)
	// GatherQuantized: dst [M K] = rows ids (I32 [M]) of w. ids may repeat and must be in range.
	GatherQuantized(dst Out, w, scales, ids *Tensor)
	// WriteRowsQuantized is WriteRows of x [N D] in 8 bits: dst (U8 [V D]) gets bytes, and scales (F32 [V B]) a scale for
	// each D/B adjacent columns. See QuantizeBlocks; halves may round to either side.
	WriteRowsQuantized(dst, scales InOut, x, at *Tensor)
	// AttentionDecodeQuantized is AttentionDecode over keys and values kv (U8 [P 2*K*E], keys first) with a scale per row
	// and head: scales F32 [P 2*K].
	AttentionDecodeQuantized(o Out, q, kv, scales, at *Tensor, p AttentionParams)
}

// ExactWords is the length of an exact accumulator: an I64 tensor with an unrounded fixed-point sum
// of F64 numbers, in 32-bit words with headroom for carries. The last word counts numbers that are
// not finite or out of range. Accumulators of several ranks are added word by word in any order, so
// a sum does not depend on the shards. The range is 2^-352 to 2^320, enough for squares and sums of
// F32 numbers.
const ExactWords = 22

// SumBlock is the number of elements whose squares are summed in F64 before they enter an exact
// accumulator. Slices with separate sums start at multiples of it.
const SumBlock = 64

// Reductions compute scalars.
type Reductions interface {
	// ExactSquares adds the sum of squares of x to acc (I64 [ExactWords]). With ends (I64 [n], as
	// in Update, multiples of SumBlock) acc has one accumulator per group.
	ExactSquares(acc InOut, x, ends *Tensor)
	// ExactAdd adds the elements of x (F64) to acc.
	ExactAdd(acc InOut, x *Tensor)
	// ExactValues: out (F64 [n]) = the accumulators acc (I64 [n ExactWords]), rounded to nearest.
	// NaN if a number was not finite.
	ExactValues(out Out, acc *Tensor)
	// StepScalars computes the step's scalars, out (F64 [ScalarCount]), from sums over all ranks:
	// squares and loss (exact accumulators) and tokens (I64 [1]). maxNorm (F64 [1]) limits the
	// gradient norm; 0 or less is no limit. lossGrad (F64 [1]; nil is 1) is the gradient of the
	// summed loss that backward started with, by which all gradients are scaled.
	StepScalars(out Out, squares, loss, tokens, maxNorm, lossGrad *Tensor)
}

// Indices of StepScalars' result.
const (
	ScalarLoss     = iota // mean loss per label token
	ScalarGradNorm        // norm of the mean gradient, before clipping
	ScalarScale           // factor for summed gradients: min(1, maxNorm/(norm+1e-6)) / (tokens*lossGrad)
	ScalarApply           // 1, or 0 to skip the step: norm or loss is not finite
	ScalarTokens          // label tokens
	ScalarCount
)

// Indices of a loss scaler's state (F64 [LossScaleCount]).
const (
	LossScaleGrad       = iota // gradient of the summed loss: scale * LossScaleParams.Unit
	LossScaleScale             // of the mean loss
	LossScaleGoodSteps         // consecutive steps without overflow since the last change of scale
	LossScaleHysteresis        // overflows until the scale falls, including that one
	LossScaleCount
)

// LossScaleParams are a dynamic loss scaler's constants.
type LossScaleParams struct {
	Growth      float64 // scale *= Growth after Window good steps
	Backoff     float64 // scale = max(Min, scale*Backoff) at an overflow
	Min         float64
	Window      int
	Hysteresis  int     // the Hysteresis-th overflow since a reset lowers the scale, as does each later one
	Consecutive bool    // each good step resets the count; otherwise only growth does
	Unit        float64 // LossScaleGrad of scale 1
}

// Optimizers update parameters.
type Optimizers interface {
	// Update applies a rule to p (F32 [n]) and its state, with gradient g (F32, BF16 or F16 [n])
	// times scalars[ScalarScale]. It does nothing if scalars[ScalarApply] is 0. Group i ends at
	// element ends[i] (I64 [groups], ascending, the last is n) and uses row i of hyper (F64
	// [groups, rule.Inputs() or more]). State tensors are F32, BF16 or F16 [n], with arithmetic in
	// F32. Or they are U8 [n], quantized by DynamicMap, and the same number of scale tensors follows
	// them (F32, one element per block of StateBlock; the last block may be shorter). Groups then
	// start at multiples of StateBlock.
	//
	// p may be [parts n], all of them with the same groups. The gradient and each state then are [parts n]
	// too, scales [parts n/StateBlock], and n is a multiple of StateBlock if the state is quantized.
	Update(rule UpdateRule, p InOut, state []InOut, g, ends, hyper, scalars *Tensor)
	// UpdateLossScale updates a loss scaler's state (F64 [LossScaleCount]) after a step. A step
	// with tokens and scalars[ScalarApply] 0 overflowed. The scale stays within F32's range.
	UpdateLossScale(state InOut, scalars *Tensor, p LossScaleParams)
}
