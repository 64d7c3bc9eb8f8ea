package device

// Float32Matmul says how products of float32 matrices are computed on cpu.
type Float32Matmul string

// The ways, the most accurate first.
const (
	Highest    Float32Matmul = "highest"    // float32 fused multiply-adds: the same bits on all processors
	BFloat16x6 Float32Matmul = "bfloat16x6" // six products of three bfloat16 parts: errors as of float32
	High       Float32Matmul = "high"       // three products of two bfloat16 parts: 16 bits, PyTorch's "high"
)

// Choices lists all ways.
func (Float32Matmul) Choices() []string {
	return []string{string(Highest), string(BFloat16x6), string(High)}
}

// parts is the number of bfloat16 parts of an operand; 0 if it is not split.
func (m Float32Matmul) parts() int {
	switch m {
	case High:
		return 2
	case BFloat16x6:
		return 3
	}
	return 0
}
