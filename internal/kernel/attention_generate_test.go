package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The assembly in the tree is what its generator makes, but for the first line, which names
// the files.
func TestAttentionAssemblyIsFresh(t *testing.T) {
	dir := t.TempDir()
	names := []string{"attention_amd64.s", "attention_stubs_amd64.go"}
	cmd := exec.Command("go", "-C", "_asm", "run", "./attention",
		"-out", filepath.Join(dir, names[0]), "-stubs", filepath.Join(dir, names[1]), "-pkg", "kernel")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOARCH=", "GOOS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the generator does not run here, so nothing is known of the assembly's age: %v\n%s", err, out)
	}
	rest := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, b, _ = bytes.Cut(b, []byte("\n"))
		return b
	}
	for _, name := range names {
		if !bytes.Equal(rest(name), rest(filepath.Join(dir, name))) {
			t.Errorf("%s is stale: run go generate ./internal/kernel", name)
		}
	}
}
