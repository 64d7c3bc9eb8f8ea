package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The assembly in the tree is what its generator makes.
func TestGemmAssemblyIsFresh(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("go", "-C", "_asm", "run", "./gemm", "-dir", dir)
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOARCH=", "GOOS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the generator does not run here, so nothing is known of the assembly's age: %v\n%s", err, out)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(made) == 0 {
		t.Fatalf("the generator made nothing (%v)", err)
	}
	for _, f := range made {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Base(f)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate ./internal/kernel (%v)", filepath.Base(f), err)
		}
	}
}
