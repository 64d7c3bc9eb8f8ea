// Package kernel has the loops over float slices. It does not know tensors or devices, and starts no threads;
// internal/backend/cpu checks shapes, splits the work and calls it on its threads. Several threads compute a Product
// together.
//
// Each operation has a generic Go version, which is always compiled and is the specification,
// and may have assembly, selected at run time by internal/impl. All versions give the same bits
// unless the operation's comment says otherwise. The bits of an element depend neither on its
// position nor on its neighbors.
//
// Gemm multiplies two matrices, and a Product (product.go) does so on several threads, which take its tasks one by one
// (gemm_tasks.go): it blocks the matrices (gemm_blocked.go), packs the operands that are slower to
// read unpacked (gemm_pack.go, and gemm_pairs.go for bfloat16 by VDPBF16PS), prefetches the next block
// (gemm_prefetch.go) and runs register tiles over them (gemm_tile.go, gemm_amd64.s, gemm_arm64.s). Processors with
// tiles have blocks of their own (gemm_tiles.go), also for float32 as a sum of bfloat16 parts (gemm_parts.go). One row by a
// transposed matrix, as in generation, is limited by memory and has kernels of its own (gemm_row.go; quantized.go
// for 8-bit weights).
package kernel

//go:generate go -C _asm run ./gemm -dir ..
