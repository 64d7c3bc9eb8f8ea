// Command vector generates the pointwise and row kernels of internal/kernel into -out. Each is written
// once (pointwise.go, norms.go, rest.go, dropout.go, quantized.go) against machine, which emits AVX-512 or AVX2.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

func main() {
	fs := flag.NewFlagSet("vector", flag.ExitOnError) // avo defines its own flags
	out := fs.String("out", "..", "folder of the kernel package")
	fs.Parse(os.Args[1:])
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "vector:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	c := build.NewContext()
	for _, m := range []*machine{newMachine(c, true), newMachine(c, false)} {
		pointwise(m)
		norms(m)
		rest(m)
		dropouts(m)
		conversions(m)
		quantized(m)
		if m.wide {
			normals(m)
		}
	}
	f, err := c.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(f); err != nil {
		return err
	}
	cfg := printer.Config{Name: "_asm/vector", Pkg: "kernel"}
	for name, p := range map[string]printer.Printer{
		"vector_amd64.s":       printer.NewGoAsm(cfg),
		"vector_stub_amd64.go": printer.NewStubs(cfg),
	} {
		b, err := p.Print(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
