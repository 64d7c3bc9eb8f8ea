package kernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestAssemblyIsFresh compares the assembly of this package and of internal/gcm with the output of its generators. .ci/run
// downloads their modules and fails if this test is skipped.
func TestAssemblyIsFresh(t *testing.T) {
	for name, args := range map[string]func(dir string) []string{
		"gemm":   func(dir string) []string { return []string{"-dir", dir} },
		"vector": func(dir string) []string { return []string{"-out", dir} },
		"gcm":    func(dir string) []string { return []string{"-out", dir} },
		"attention": func(dir string) []string {
			return []string{"-out", filepath.Join(dir, "attention_amd64.s"), "-stubs", filepath.Join(dir, "attention_stubs_amd64.go"), "-pkg", "kernel"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("go", append([]string{"-C", "_asm", "run", "./" + name}, args(dir)...)...)
			cmd.Env = append(os.Environ(), "GOPROXY=off", "GOARCH=", "GOOS=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("SKIPPED: the generator does not run here, so nothing is known of the assembly's age: %v\n%s", err, out)
			}
			made, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(made) < 2 {
				t.Fatalf("the generator made %q (%v)", made, err)
			}
			for _, f := range made {
				pkg := "kernel"
				if name == "gcm" {
					pkg = name
				}
				if want, got := generated(t, f), generated(t, filepath.Join("..", pkg, filepath.Base(f))); !bytes.Equal(got, want) {
					t.Errorf("%s is stale. run: go generate ./internal/%s", filepath.Base(f), pkg)
				}
			}
		})
	}
}

// generated reads a file without its first line, which has the generator's flags.
func generated(t *testing.T, path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, b, _ = bytes.Cut(b, []byte("\n"))
	return b
}
