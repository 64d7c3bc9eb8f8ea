package kernel

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const levelsPage = "../../docs/adding-an-operation.md"

// TestLevels compares the table of kernels in docs/adding-an-operation.md with the declarations of assembly, and checks
// that NEON has all that AVX2 has. UPDATE=1 rewrites the table.
func TestLevels(t *testing.T) {
	stubs, err := filepath.Glob("*stub*.go")
	if err != nil || len(stubs) < 5 {
		t.Fatal(stubs, err)
	}
	declaration := regexp.MustCompile(`(?m)^func (\w*?)(AVX512|AVX2|NEON|AMX|BF16)(?:x\d+)?(?:BF16|F16)?\(`)
	has := map[string]map[string]bool{}
	for _, f := range stubs {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declaration.FindAllStringSubmatch(string(b), -1) {
			if has[m[1]] == nil {
				has[m[1]] = map[string]bool{}
			}
			has[m[1]][m[2]] = true
		}
	}
	levels := []string{"NEON", "AVX2", "AVX512", "BF16", "AMX"}
	var table strings.Builder
	table.WriteString("| kernel | " + strings.Join(levels, " | ") + " |\n|---|" + strings.Repeat("---|", len(levels)) + "\n")
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if has[name]["AVX2"] && !has[name]["NEON"] && name != "dotQuantizedRows" { // NEON has dotQuantized, row by row
			t.Errorf("%s has assembly for AVX2 and none for NEON", name)
		}
		fmt.Fprintf(&table, "| `%s` |", name)
		for _, l := range levels {
			if has[name][l] {
				table.WriteString(" yes")
			}
			table.WriteString(" |")
		}
		table.WriteString("\n")
	}
	b, err := os.ReadFile(levelsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), "<!-- kernels -->\n")
	old, after, closed := strings.Cut(rest, "<!-- end of kernels -->")
	if !found || !closed {
		t.Fatalf("%s has no table between <!-- kernels --> and <!-- end of kernels -->", levelsPage)
	}
	if want := table.String(); old != want {
		if os.Getenv("UPDATE") == "" {
			t.Fatalf("the table of kernels in %s is stale. try: UPDATE=1 go test ./internal/kernel -run TestLevels", levelsPage)
		}
		if err := os.WriteFile(levelsPage, []byte(before+"<!-- kernels -->\n"+want+"<!-- end of kernels -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
