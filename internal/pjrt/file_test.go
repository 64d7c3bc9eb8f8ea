package pjrt_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"trireme/internal/pjrt"
)

// A program's file is as good as a library's: only its beginning is there.
func TestIncompleteFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have other formats of libraries")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{20, 3000, len(text) / 2} {
		path := filepath.Join(t.TempDir(), "plugin.so")
		if err := os.WriteFile(path, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := pjrt.Load(path)
		refused(t, err, "incomplete")
	}
}
