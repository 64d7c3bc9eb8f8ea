// Package cpuid says which vector instructions the processor has and the system lets a
// program use. It only reports: internal/impl chooses.
package cpuid

import (
	"runtime"

	"github.com/klauspost/cpuid/v2"
)

// What this processor has; all false where the question makes no sense.
var (
	// AVX512 is AVX-512 F, BW, DQ and VL, the set that server processors have had since
	// Skylake, with the registers saved by the system.
	AVX512 = cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL) && AVX2FMA
	// AVX2FMA is AVX2, FMA3 and F16C.
	AVX2FMA = cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C)
	// AMX is tiles that multiply bfloat16, beside AVX512. A program asks the system for their
	// registers; it was granted them.
	AMX = AVX512 && cpuid.CPU.Supports(cpuid.AMXTILE, cpuid.AMXBF16) && requestTiles()
	// NEON is arm64's vector unit, which every arm64 processor has.
	NEON = runtime.GOARCH == "arm64"
)
