// Command generate writes the layout of the PJRT C API for package pjrt, from its header
// (testdata/pjrt_c_api.h: version 0.81, openxla/xla, Apache License 2.0, unchanged). layout.go has the
// structs and the offsets of functions that the binding uses, layout_list_test.go lists the structs,
// and testdata/layout.txt has the offsets, sizes and values that a C compiler gives them:
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

// run writes the files into the current directory, which is internal/pjrt under go generate.
func run(header string) error {
	files, err := generate(header)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.FromSlash(name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the contents of files by their names.
func generate(header string) (map[string][]byte, error) {
	text, err := os.ReadFile(header)
	if err != nil {
		return nil, err
	}
	h, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	layout, err := measure(h, header)
	if err != nil {
		return nil, err
	}
	source, err := write(h, layout)
	if err != nil {
		return nil, err
	}
	list, err := writeList(h)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"layout.go": source, "layout_list_test.go": list, "testdata/layout.txt": []byte(layout)}, nil
}
