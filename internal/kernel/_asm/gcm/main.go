// Command gcm generates the assembly of internal/gcm into -out.
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
	fs := flag.NewFlagSet("gcm", flag.ExitOnError) // avo defines its own flags
	out := fs.String("out", "../../gcm", "folder of the package")
	fs.Parse(os.Args[1:])
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gcm:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	g := newGenerator(build.NewContext())
	g.expandKey()
	g.hash()
	g.counter()
	g.both("seal", false)
	g.both("open", true)
	f, err := g.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(f); err != nil {
		return err
	}
	cfg := printer.Config{Name: "internal/kernel/_asm/gcm", Pkg: "gcm"}
	for name, p := range map[string]printer.Printer{
		"gcm_amd64.s":       printer.NewGoAsm(cfg),
		"gcm_stub_amd64.go": printer.NewStubs(cfg),
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
