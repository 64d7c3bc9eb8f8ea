package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRecipes: each example of trireme recipes is a run that could begin.
func TestRecipes(t *testing.T) {
	fromRoot(t)
	for _, j := range recipeJobs[1:] {
		args, ok := strings.CutPrefix(j.Command, "trireme ")
		if !ok {
			continue
		}
		if code, _, stderr := command(append(strings.Fields(args), "--dry_run")...); code != 0 {
			t.Errorf("%s: code %d: %s", j.Name, code, stderr)
		}
	}
}

// TestLinks: files that pages link to are there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../examples/*.md", "../../examples/*/*.md", "../../bench/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
					t.Errorf("%s links to %s, which is not there", page, m[1])
				}
			}
		}
	}
}

// TestLibraryPage: docs/library.md shows the example that package train runs.
func TestLibraryPage(t *testing.T) {
	source, page := read(t, "../../train/example_test.go"), read(t, "../../docs/library.md")
	_, body, _ := strings.Cut(source, "func Example() {\n")
	body, _, ok := strings.Cut(body, "\t// Output:")
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if !ok || !strings.Contains(squeeze(page), squeeze(body)) {
		t.Error("docs/library.md does not show train's example as it is")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fromRoot makes the repository's root the working directory, and leaves nothing outside.
func fromRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "HF_HOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
}
