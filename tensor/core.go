package tensor

// Core is the minimal backend: few operations, nearly all named as in StableHLO, that suffice for a
// training step. Package tensor/compose builds the rest of Backend from them.
//
// Element-wise operations and reductions see a tensor as a matrix of Rows x Width, with strided
// rows allowed. They mix types, compute in Arithmetic of their operands and round once, to dst's
// type. Inputs broadcast from one row, one column or one element. dst may be an operand of its
// shape.
type Core interface {
	Memory

	// Fill sets every element to v.
	Fill(dst Out, v float64)
	// Copy copies and converts; rows may be strided. Floats round to nearest even. Float to integer
	// truncates, and wide to narrow integers drop bits.
	Copy(dst Out, src *Tensor)
	// Swap transposes the middle dimensions: dst [A C B D] = x [A B C D], of one type.
	Swap(dst Out, x *Tensor)
	// Iota: each element is its row (dim 0) or column (dim 1) index.
	Iota(dst Out, dim int)
	// Unary: dst = op(x), floats only.
	Unary(dst Out, x *Tensor, op UnaryOp)
	// Binary: dst = x op y. Comparisons give 1 or 0 (U8).
	Binary(dst Out, x, y *Tensor, op BinaryOp)
	// Select: dst = x where cond (U8) is not 0, else y.
	Select(dst Out, cond, x, y *Tensor)
	// Reduce reduces x [N D] over rows to dst [D] (dim 0), or over columns to dst [N] (dim 1), in
	// ascending order, by Add, Max or Min in type acc. An empty Add is 0; Max and Min need an
	// element. dst is contiguous.
	Reduce(dst Out, x *Tensor, dim int, op BinaryOp, acc DType)
	// MatMul: dst [M N] (+)= op(a) [M K] * op(b) [K N]. Rows may be strided. Three dimensions are a
	// batch. Sums run over k in ascending order in F32.
	MatMul(dst Acc, a, b *Tensor, op MatMulOp)
	// GatherRows: dst [N D] = rows ids (I32 [N]) of table [V D], floats only, like PyTorch's
	// index_select. ids may repeat and must be in range.
	GatherRows(dst Out, table, ids *Tensor)
	// WriteRows: rows [at[0], at[0]+N) of dst [V D] = x [N D], converted, like XLA's
	// dynamic_update_slice. Other rows stay. at is I32 [1], and all rows must be in dst. Rows may be
	// strided.
	WriteRows(dst InOut, x, at *Tensor)
	// ScatterAdd: dst [V D] (+)= rows of x [N D] at ids (I32 [N]), floats only. Rows with one id
	// are summed in order of n in F32, then added once. Rows with id padding are skipped; NoPadding
	// skips none.
	ScatterAdd(dst Acc, x, ids *Tensor, padding int, accumulate bool)
}

// NoPadding is the padding row of a table without one.
const NoPadding = -1

// MatMulOp are the options of MatMul.
type MatMulOp struct {
	TransA, TransB bool // use A, B transposed
	Accumulate     bool // add the finished product to dst
	Highest        bool // multiply F32 as F32 on a backend that computes other products of F32 from narrower parts
}

// UnaryOp is an element-wise function of one operand.
type UnaryOp uint8

const (
	Abs UnaryOp = iota
	Exp
	Log
	Log1p // log(1+x)
	Sqrt
	Tanh
	Erf
	Logistic // 1/(1+exp(-x))
	Sin
	Cos
	Floor
)

// BinaryOp is an element-wise function of two operands.
type BinaryOp uint8

// Rem to Ushr take integers, which wrap around. Comparisons take all types.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div // truncates integers
	Max
	Min
	Rem // has the sign of x
	And
	Or
	Xor
	Shl
	Shr  // arithmetic shift
	Ushr // logical shift
	Eq
	Ne
	Lt
	Le
	Gt
	Ge
)

var (
	unaryNames  = [...]string{"abs", "exp", "log", "log1p", "sqrt", "tanh", "erf", "logistic", "sin", "cos", "floor"}
	binaryNames = [...]string{"add", "sub", "mul", "div", "max", "min", "rem", "and", "or", "xor", "shl", "shr", "ushr", "eq", "ne", "lt", "le", "gt", "ge"}
)

func (o UnaryOp) String() string  { return unaryNames[o] }
func (o BinaryOp) String() string { return binaryNames[o] }

// Compares reports whether the result is U8, 1 or 0.
func (o BinaryOp) Compares() bool { return o >= Eq }

// Arithmetic is the type in which element-wise operations on these types compute: the widest, with
// 16-bit floats as F32 and U8 as I32. ok is false for a mix of floats and integers.
func Arithmetic(types ...DType) (dt DType, ok bool) {
	var floats, ints, wide bool
	for _, t := range types {
		switch t {
		case F32, BF16, F16:
			floats = true
		case F64:
			floats, wide = true, true
		case I64:
			ints, wide = true, true
		default:
			ints = true
		}
	}
	switch {
	case floats && wide:
		dt = F64
	case floats:
		dt = F32
	case wide:
		dt = I64
	default:
		dt = I32
	}
	return dt, !(floats && ints)
}
