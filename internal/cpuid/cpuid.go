// Package cpuid reports the vector instructions that the processor and the operating system
// support. Package internal/impl chooses among them.
package cpuid

import (
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// Instruction sets of this processor.
var (
	// AVX512 is AVX-512 F, BW, DQ and VL, in server processors since Skylake.
	AVX512 = cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL) && AVX2FMA
	// AVX2FMA is AVX2, FMA3 and F16C.
	AVX2FMA = cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C)
	// AVX512BF16 is AVX512 with products of pairs of bfloat16.
	AVX512BF16 = AVX512 && cpuid.CPU.Supports(cpuid.AVX512BF16)
	// FastBF16 is AVX512BF16 with twice the multiply-adds of float32: AMD's, since Zen 4. Those of Intel's
	// processors with tiles do half of float32's.
	FastBF16 = AVX512BF16 && cpuid.CPU.VendorID == cpuid.AMD
	// AMX is AVX512 and bfloat16 tiles, with permission from the operating system.
	AMX = AVX512 && cpuid.CPU.Supports(cpuid.AMXTILE, cpuid.AMXBF16) && requestTiles()
	// VAES is AVX512, with AES and carry-less multiplication of four blocks at once.
	VAES = AVX512 && cpuid.CPU.Supports(cpuid.VAES, cpuid.VPCLMULQDQ, cpuid.BMI2)
	// NEON is part of every arm64 processor.
	NEON = runtime.GOARCH == "arm64"
)

// Name returns the processor's model and features. Code compiled for a processor runs on another of
// the same name.
func Name() string {
	return runtime.GOARCH + " " + cpuid.CPU.BrandName + " " + strings.Join(cpuid.CPU.FeatureSet(), ",")
}
