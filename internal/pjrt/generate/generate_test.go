package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFresh fails if the header and the C compiler give other files.
func TestFresh(t *testing.T) {
	if _, err := exec.LookPath(compiler()); err != nil {
		t.Skipf("SKIPPED: no C compiler: %v", err)
	}
	files, err := generate(filepath.Join("testdata", "pjrt_c_api.h"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("internal/pjrt/%s is stale (%v). run: go generate ./internal/pjrt", name, err)
		}
	}
}

// A header without a struct or enumeration that the binding uses is an error that names it.
func TestParseFails(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "pjrt_c_api.h"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"struct PJRT_Program", "PJRT_Error_Code"} {
		_, err := parse(strings.ReplaceAll(string(text), name, "other"))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
