// Command generate writes internal/pjrt/layout.go and internal/pjrt/testdata/layout.txt from the header
// of the PJRT C API (testdata/pjrt_c_api.h: version 0.81, openxla/xla, Apache License 2.0, unchanged).
// layout.go has the structs and the offsets of functions that the binding uses; layout.txt has the
// offsets, sizes and values that a C compiler gives them. It needs a C compiler:
//
//	go generate ./internal/pjrt
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(filepath.Join("generate", "testdata", "pjrt_c_api.h")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run writes both files into the current directory, which is internal/pjrt under go generate.
func run(header string) error {
	text, err := os.ReadFile(header)
	if err != nil {
		return err
	}
	h, err := parse(string(text))
	if err != nil {
		return err
	}
	layout, err := measure(h, header)
	if err != nil {
		return err
	}
	source, err := write(h, layout)
	if err != nil {
		return err
	}
	if err := os.WriteFile("layout.go", source, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("testdata", "layout.txt"), []byte(layout), 0o644)
}
