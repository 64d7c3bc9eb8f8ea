package tensor

// Core is what a backend has to implement: few operations, each of which StableHLO has under
// nearly the same name, and of which everything in a training step can be made. Package
// tensor/compose makes the rest of Backend of them.
//
// Element-wise operations and reductions see a tensor as a matrix of Rows x Width. They honour
// row gaps, and mix types: they compute in Arithmetic of their operands and round once, to the
// type of dst. An operand that is only read may have one row, one column or one element in place
// of dst's number of them, and is then repeated. dst may be an operand of its own shape.
type Core interface {
	Memory

	// Fill sets every element to v.
	Fill(dst Out, v float64)
	// Copy copies and converts; both may have row gaps. Floats round to nearest even, floats
	// become integers by dropping the fraction, and integers become shorter ones by dropping bits.
	Copy(dst Out, src *Tensor)
	// Swap exchanges the two middle dimensions: dst [A C B D] = x [A B C D], of one type.
	Swap(dst Out, x *Tensor)
	// Iota: each element is its row (dim 0) or its column (dim 1).
	Iota(dst Out, dim int)
	// Unary: dst = op(x), of floats.
	Unary(dst Out, x *Tensor, op UnaryOp)
	// Binary: dst = x op y. Comparisons give 1 or 0 (U8).
	Binary(dst Out, x, y *Tensor, op BinaryOp)
	// Select: dst = x where cond (U8) is not 0, else y.
	Select(dst Out, cond, x, y *Tensor)
	// Reduce joins the rows of x [N D] to one, dst [D] (dim 0), or the elements of each row to
	// one, dst [N] (dim 1), in ascending order, by Add, Max or Min in the type acc. Of nothing
	// Add gives 0; Max and Min take at least one element. dst has no gaps.
	Reduce(dst Out, x *Tensor, dim int, op BinaryOp, acc DType)
	// MatMul: dst [M N] (+)= op(a) [M K] * op(b) [K N]; row strides are honoured. Three
	// dimensions are a batch of such products. Sums run over k in ascending order in F32.
	MatMul(dst Acc, a, b *Tensor, op MatMulOp)
	// Gather: dst [N D] = rows ids (I32 [N]) of table [V D], of floats. A row may be taken more
	// than once; ids that are no rows are misuse.
	Gather(dst Out, table, ids *Tensor)
	// ScatterAdd: dst [V D] (+)= rows of x [N D] at ids (I32 [N]), of floats: what falls to one row
	// is summed in the order of n in F32, then added once. Rows whose id is padding are left out;
	// NoPadding leaves out none.
	ScatterAdd(dst Acc, x, ids *Tensor, padding int, accumulate bool)
}

// NoPadding is the padding row of a table that has none.
const NoPadding = -1

// MatMulOp says how MatMul reads its operands.
type MatMulOp struct {
	TransA, TransB bool // read A, B transposed
	Accumulate     bool // add to dst: the product is summed first, then added once
}

// UnaryOp is a function of one number.
type UnaryOp uint8

// The functions of one number.
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

// BinaryOp is a function of two numbers.
type BinaryOp uint8

// The functions of two numbers. Rem and what follows it is of integers, which wrap around;
// comparisons are of all types.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div // of integers: the fraction is dropped
	Max
	Min
	Rem // of the sign of x
	And
	Or
	Xor
	Shl
	Shr  // the sign is repeated
	Ushr // the sign is a bit like others
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

// Compares says whether the result is 1 or 0.
func (o BinaryOp) Compares() bool { return o >= Eq }

// Arithmetic is the type in which element-wise operations on such types compute: the widest,
// where floats of 16 bits count as F32 and U8 as I32. ok is false where floats meet integers.
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
