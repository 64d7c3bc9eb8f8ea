package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// measure returns what a C compiler says: a line "STRUCT.MEMBER OFFSET SIZE" per member and entry of
// the table, "STRUCT size N" per struct, "NAME = VALUE" per value of an enumeration. $CC names the
// compiler; the default is cc.
func measure(h *header, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#include <stdio.h>\n#include %q\nint main(void) {\n", path)
	offset := func(s, m string) {
		fmt.Fprintf(&b, "printf(\"PJRT_%s.%s %%zu %%zu\\n\", offsetof(PJRT_%s, %s), sizeof(((PJRT_%s*)0)->%s));\n", s, m, s, m, s, m)
	}
	fmt.Fprintf(&b, "printf(\"# version %%d.%%d\\n\", PJRT_API_MAJOR, PJRT_API_MINOR);\n")
	offset("Api", "struct_size")
	offset("Api", "pjrt_api_version")
	for _, f := range functions {
		offset("Api", "PJRT_"+f)
	}
	for _, s := range h.structs {
		fmt.Fprintf(&b, "printf(\"PJRT_%s size %%zu\\n\", sizeof(PJRT_%s));\n", s.name, s.name)
		for _, f := range s.fields {
			offset(s.name, f.name)
		}
	}
	for _, e := range enums {
		for _, v := range h.enums[e] {
			fmt.Fprintf(&b, "printf(\"PJRT_%s = %%d\\n\", (int)PJRT_%s);\n", v, v)
		}
	}
	b.WriteString("return 0;\n}\n")

	dir, err := os.MkdirTemp("", "pjrt-layout-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	source, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(b.String()), 0o644); err != nil {
		return "", err
	}
	if out, err := exec.Command(compiler(), "-o", program, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", compiler(), err, out)
	}
	out, err := exec.Command(program).Output()
	return string(out), err
}

// compiler returns the C compiler's name.
func compiler() string {
	if cc := os.Getenv("CC"); cc != "" {
		return cc
	}
	return "cc"
}
