// Command gemm generates the matrix multiplication kernels of internal/kernel into -dir.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"

	"trireme/asm/arm"
)

func main() {
	dir := flag.String("dir", "..", "folder of the kernel package")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "gemm:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	c := build.NewContext()
	for _, rows := range []int{14, 8, 4, 2, 1} {
		tileAVX512(c, rows, false)
	}
	for _, rows := range []int{14, 8, 4, 2, 1} {
		tileAVX512(c, rows, true)
	}
	transpose(c, "AVX512", c.ZMM, 16)
	for _, kind := range []string{"", "BF16", "F16"} {
		copyAVX512(c, 1, kind)
		copyAVX512(c, 2, kind)
	}
	copyTilesAVX512(c)
	pairTilesAVX512(c)
	transposeTilesAVX512(c)
	for _, parts := range []int{2, 3} {
		splitTilesAVX512(c, parts, false)
		splitTilesAVX512(c, parts, true)
	}
	pairRowsAVX512(c, 1)
	pairRowsAVX512(c, 2)
	transposePairsAVX512(c)
	swapPairsAVX512(c)
	stripBF16(c)
	for _, kind := range []rowKind{rowFloats, rowWide, rowPairs, rowTiles} {
		row(c, "AVX512", c.ZMM, 16, kind)
	}
	peak(c, "AVX512", c.ZMM, 24, c.VFMADD231PS, c.VPXORD)
	peak(c, "BF16", c.ZMM, 24, func(ops ...operand.Op) { dot(c, ops...) }, c.VPXORD)
	for _, rows := range []int{6, 4, 2, 1} {
		tileAVX2(c, rows)
	}
	for _, kind := range []string{"", "BF16", "F16"} {
		copyAVX2(c, []int{4, 2}, kind)
		copyAVX2(c, []int{8, 8}, kind)
	}
	for _, kind := range []rowKind{rowFloats, rowWide} {
		row(c, "AVX2", c.YMM, 8, kind)
	}
	transpose(c, "AVX2", c.YMM, 8)
	peak(c, "AVX2", c.YMM, 12, c.VFMADD231PS, c.VXORPS)
	f, err := c.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(f); err != nil {
		return err
	}
	cfg := printer.Config{Name: "_asm/gemm", Pkg: "kernel"}
	asm, err := printer.NewGoAsm(cfg).Print(f)
	if err != nil {
		return err
	}
	stubs, err := printer.NewStubs(cfg).Print(f)
	if err != nil {
		return err
	}
	n := newNEON()
	for _, rows := range []int{8, 4, 1} {
		n.tile(rows)
	}
	n.peak()
	more := arm.New("rows")
	for _, kind := range []rowKind{rowFloats, rowWide} {
		rowNEON(more, kind)
	}
	transposeNEON(more)
	for _, kind := range []string{"", "BF16", "F16"} {
		copyNEON(more, 8, kind)
		copyNEON(more, 12, kind)
	}
	rows, rowStubs := more.Bytes()
	n.asm.Write(rows)
	n.stubs.Write(rowStubs)
	x := newAMX()
	x.config()
	for parts := 1; parts <= 3; parts++ {
		x.tiles(parts)
	}
	x.peak()
	for name, b := range map[string][]byte{
		"gemm_amd64.s": encodeMissing(asm), "gemm_stub_amd64.go": stubs,
		"gemm_arm64.s": n.asm.Bytes(), "gemm_stub_arm64.go": n.stubs.Bytes(),
		"gemm_amx_amd64.s": x.asm.Bytes(), "gemm_amx_stub_amd64.go": x.stubs.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
