package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The assembly in the tree is what its generator makes.
func TestVectorAssemblyIsFresh(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("go", "-C", "_asm", "run", "./vector", "-out", dir)
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOARCH=", "GOOS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the generator does not run here, so nothing is known of the assembly's age: %v\n%s", err, out)
	}
	for _, name := range []string{"vector_amd64.s", "vector_stub_amd64.go"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate ./internal/kernel (%v)", name, err)
		}
	}
}
