// Package kernel holds the loops over floats: slices in, slices out, on one thread. It knows
// no tensors, no threads and no devices; internal/backend/cpu checks shapes, splits the work
// and calls it.
//
// Each operation has a generic twin in Go, which is always compiled and is the
// specification, and may have assembly that internal/impl chooses at run time. Variants give
// the same bits unless an operation's comment says otherwise, and an element's bits depend
// neither on its position nor on what is computed beside it.
//
// Gemm is the product of two matrices: it divides them into blocks (gemm.go), packs those
// that are not better read where they lie (gemm_pack.go), asks for what comes next
// (gemm_ahead.go) and sweeps tiles over them (gemm_tile.go, gemm_amd64.s, gemm_arm64.s).
package kernel

//go:generate go -C _asm run ./gemm -dir ..
