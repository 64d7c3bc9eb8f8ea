// Package impl selects at run time between a kernel's variants: generic Go and assembly for
// instruction sets. Kernels call Current on every call; tests run all supported variants with Each.
// The best variant is used, unless device.instructions selects another.
package impl

import (
	"sync/atomic"

	"trireme/internal/cpuid"
)

// Level is an instruction set. Kernels without assembly for a level use Generic.
type Level int32

// The levels. Generic Go is compiled everywhere and specifies the others.
const (
	Generic    Level = iota
	NEON             // arm64
	AVX2             // amd64 with AVX2, FMA3 and F16C
	AVX512           // amd64 with AVX-512 F, BW, DQ and VL
	AVX512BF16       // AVX512 and products of pairs of bfloat16
	AMX              // AVX512 and bfloat16 tiles
)

var names = [...]string{"generic", "neon", "avx2", "avx512", "avx512bf16", "amx"}

func (l Level) String() string { return names[l] }

// Names lists all levels.
func Names() []string { return names[:] }

var current atomic.Int32

func init() {
	levels := Available()
	current.Store(int32(levels[len(levels)-1]))
}

// Current is the level for vector kernels: AVX512 instead of those that only add products of bfloat16.
func Current() Level { return min(Best(), AVX512) }

// Pairs reports whether bfloat16 products use pairs.
func Pairs() bool { return Best() == AVX512BF16 }

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
	if cpuid.AVX512BF16 && !cpuid.FastBF16 {
		levels = append(levels, AVX512BF16)
	}
	if cpuid.AVX512 {
		levels = append(levels, AVX512)
	}
	if cpuid.FastBF16 {
		levels = append(levels, AVX512BF16)
	}
	if cpuid.AMX {
		levels = append(levels, AMX)
	}
	return levels
}

// Use selects an available level for the whole process, until restore is called. No other goroutine may compute
// meanwhile.
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
