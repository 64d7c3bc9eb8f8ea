// Package nvmltest makes a stand-in for the NVIDIA driver's library, for tests on machines without a GPU.
package nvmltest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// source is the library's code. Its first lines list the environment variables that change its state.
//
//go:embed nvml.c.txt
var source []byte

// Library compiles the library and returns its file, libnvidia-ml.so.1 in a directory of its own. The
// test is skipped where there is no C compiler.
func Library(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: GPUs are read on Linux only")
	}
	file := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	Compile(t, file, string(source))
	return file
}

// Compile compiles C code to a shared library. The test is skipped where there is no C compiler.
func Compile(t testing.TB, file, code string, flags ...string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("SKIPPED: no C compiler (cc)")
	}
	in := filepath.Join(t.TempDir(), "library.c")
	if err := os.WriteFile(in, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wl,-soname," + filepath.Base(file), "-o", file, in}, flags...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
