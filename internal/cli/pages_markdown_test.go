package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A page is a Markdown file of the documentation. Its commands are in fences with the language sh.
// A comment on the line above a fence says what the test does with it:
//
//	<!-- not run: REASON -->        the commands are only parsed
//	<!-- with: NAME=VALUE ... -->   they run with these environment variables
//	<!-- file: NAME -->             the block is the content of a file that later commands read
//	<!-- code: N -->                the last command exits with this code
type page struct {
	name   string // from the root of the repository
	blocks []block
	spans  []span
}

// block is a fence of a page.
type block struct {
	line       int
	lang, text string
	marker     string // not run, with, file or code
	value      string
}

// span is inline code.
type span struct {
	line int
	text string
}

var (
	fenceMarker = regexp.MustCompile(`^\s*<!-- (not run|with|file|code): (.+) -->$`)
	inlineCode  = regexp.MustCompile("`([^`]+)`")
)

// documentation reads every page except the log, which is history.
func documentation(t *testing.T) []page {
	t.Helper()
	var pages []page
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md", "bench/*.md"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if slices.Contains([]string{"log.md", "CHANGELOG.md"}, filepath.Base(path)) {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel("../..", path)
			if err != nil {
				t.Fatal(err)
			}
			p, err := readPage(filepath.ToSlash(name), string(b))
			if err != nil {
				t.Error(err)
			}
			pages = append(pages, p)
		}
	}
	return pages
}

// readPage splits a page into fences and inline code. Code that is indented instead of fenced is an
// error, and so is a command in a fence of another language: neither would be run.
func readPage(name, text string) (page, error) {
	p := page{name: name}
	var open *block
	var indent string
	previous := ""
	for i, l := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(l, " ")
		switch {
		case open != nil && strings.TrimSpace(l) == "```":
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			l = strings.TrimPrefix(l, indent)
			if open.lang != "sh" && looksLikeCommand.MatchString(l) {
				return p, fmt.Errorf("%s:%d: a command in a fence of %q is not run. use sh", name, i+1, open.lang)
			}
			open.text += l + "\n"
		case strings.HasPrefix(trimmed, "```"):
			indent = l[:len(l)-len(trimmed)]
			lang, rest, _ := strings.Cut(strings.TrimPrefix(trimmed, "```"), " ")
			if lang == "" || rest != "" {
				return p, fmt.Errorf("%s:%d: a fence has one word, its language", name, i+1)
			}
			open = &block{line: i + 1, lang: lang}
			if m := fenceMarker.FindStringSubmatch(previous); m != nil {
				open.marker, open.value = m[1], m[2]
			}
		case strings.HasPrefix(l, "    ") && looksLikeCommand.MatchString(trimmed):
			return p, fmt.Errorf("%s:%d: an indented command is not run. put it in a fence of sh", name, i+1)
		default:
			if m := fenceMarker.FindString(l); m == "" && strings.HasPrefix(trimmed, "<!-- ") && strings.Contains(l, "run:") {
				return p, fmt.Errorf("%s:%d: an unknown marker: %s", name, i+1, l)
			}
			for _, m := range inlineCode.FindAllStringSubmatch(l, -1) {
				p.spans = append(p.spans, span{i + 1, m[1]})
			}
		}
		previous = l
	}
	if open != nil {
		return p, fmt.Errorf("%s:%d: the fence has no end", name, open.line)
	}
	return p, nil
}

// looksLikeCommand matches what a reader would paste into a shell.
var looksLikeCommand = regexp.MustCompile(`^(\$ )?([A-Z_]+=\S+ )*(trireme|make|go (run|build|test|generate)|torchrun) [a-z./-]`)

// commands are the single commands of a shell text: continuations joined, comments left out, and
// split at pipes and the like.
func commands(text string) []string {
	text = strings.ReplaceAll(text, "\\\n", " ")
	text = strings.ReplaceAll(text, "go run ./cmd/trireme", "trireme")
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		var words []string
		flush := func() {
			if len(words) > 0 {
				out = append(out, strings.Join(words, " "))
			}
			words = nil
		}
		for _, w := range shellWords.FindAllString(line, -1) {
			if strings.HasPrefix(w, "#") {
				break
			}
			if slices.Contains([]string{"|", "&&", "||", ";", "do", "then"}, w) {
				flush()
				continue
			}
			end := strings.HasSuffix(w, ";")
			words = append(words, strings.TrimSuffix(w, ";"))
			if end {
				flush()
			}
		}
		flush()
	}
	return out
}
