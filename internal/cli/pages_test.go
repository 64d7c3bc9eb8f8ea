package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		if scaled, ok := strings.CutPrefix(args, "bench scaling "); ok { // it trains with the same configuration
			args, _, _ = strings.Cut("train "+scaled, " --worlds")
		}
		if code, _, stderr := command(append(strings.Fields(args), "--dry_run")...); code != 0 {
			t.Errorf("%s: code %d: %s", j.Name, code, stderr)
		}
	}
}

// TestLinks: files that pages link to are there, with the headings.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(#[^)\s]*)?\)`)
	for _, p := range documentation(t) {
		page := filepath.Join("../..", p.name)
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", p.name, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(read(t, to)), m[2]) {
				t.Errorf("%s links to %s%s, which has no such heading", p.name, m[1], m[2])
			}
		}
	}
}

// anchors are the headings of a page as a forge writes them in links.
func anchors(text string) (out []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, "#"+strings.ReplaceAll(name, " ", "-"))
	}
	return out
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
