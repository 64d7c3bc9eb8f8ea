package device

// Float32Matmul says how products of float32 matrices are computed on cpu.
type Float32Matmul string

// The ways.
const (
	AutoFloat32Matmul Float32Matmul = "auto"       // BFloat16x6 on processors with tiles, Highest on others
	Highest           Float32Matmul = "highest"    // float32 fused multiply-adds: the same bits on all processors
	BFloat16x6        Float32Matmul = "bfloat16x6" // six products of three bfloat16 parts: errors below float32's
	High              Float32Matmul = "high"       // three products of two bfloat16 parts: 16 bits, PyTorch's "high"
)

// Choices lists all ways.
func (Float32Matmul) Choices() []string {
	return []string{string(AutoFloat32Matmul), string(Highest), string(BFloat16x6), string(High)}
}

// onCPU is m without AutoFloat32Matmul.
func (m Float32Matmul) onCPU() Float32Matmul {
	if m == AutoFloat32Matmul {
		return BFloat16x6
	}
	return m
}

// parts is the number of bfloat16 parts of an operand; 0 if it is not split.
func (m Float32Matmul) parts() int {
	switch m.onCPU() {
	case High:
		return 2
	case BFloat16x6:
		return 3
	}
	return 0
}
