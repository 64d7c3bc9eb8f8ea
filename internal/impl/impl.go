// Package impl selects at run time between a kernel's variants: generic Go and assembly for
// instruction sets. Kernels call Current on every call; tests run all supported variants with Each.
// The best variant is always used; users cannot choose.
package impl

import (
	"sync/atomic"

	"trireme/internal/cpuid"
)

// Level is an instruction set. Kernels without assembly for a level use Generic.
type Level int32

// The levels. Generic Go is compiled everywhere and specifies the others.
const (
	Generic Level = iota
	NEON          // arm64
	AVX2          // amd64 with AVX2, FMA3 and F16C
	AVX512        // amd64 with AVX-512 F, BW, DQ and VL
	AMX           // AVX512 and bfloat16 tiles
)

func (l Level) String() string {
	return [...]string{"generic", "neon", "avx2", "avx512", "amx"}[l]
}

var current atomic.Int32

func init() {
	levels := Available()
	current.Store(int32(levels[len(levels)-1]))
}

// Current is the level for vector kernels: AVX512 instead of AMX, which only adds tiles.
func Current() Level { return min(Best(), AVX512) }

// Tiles reports whether bfloat16 products use tiles.
func Tiles() bool { return Best() == AMX }

// Best is the selected level.
func Best() Level { return Level(current.Load()) }

// Available lists the levels that this processor supports, slowest first.
func Available() []Level {
	levels := []Level{Generic}
	if cpuid.NEON {
		levels = append(levels, NEON)
	}
	if cpuid.AVX2FMA {
		levels = append(levels, AVX2)
	}
	if cpuid.AVX512 {
		levels = append(levels, AVX512)
	}
	if cpuid.AMX {
		levels = append(levels, AMX)
	}
	return levels
}

// Use selects l for the whole process until restore is called. For tests only, not in parallel with
// others that compute.
func Use(l Level) (restore func()) {
	old := current.Swap(int32(l))
	return func() { current.Store(old) }
}

// Each runs f as a subtest or sub-benchmark at each available level, sequentially.
func Each[T interface{ Run(string, func(T)) bool }](t T, f func(T)) {
	for _, l := range Available() {
		restore := Use(l)
		t.Run(l.String(), f)
		restore()
	}
}
