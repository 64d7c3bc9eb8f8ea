package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// word is an expression that readers of the field do not use, or use for something else.
type word struct {
	find  string // regular expression; case is ignored
	write string // what to write instead
	allow string // phrases that are fine
	skip  string // paths of files where the word is a term
}

var words = []word{
	{find: `\bway (back|forward)\b`, write: "backward, in forward"},
	{find: `\b(go|goes|going|went|gone) back\b`, write: "backward, return to"},
	{find: `\blet(s|ting)? (\w+ )?go\b`, write: "freed, released; parameters: resharded"},
	{find: `\bgiv(e|es|en|ing) (\w+ )?back\b`, write: "freed, released, returned"},
	{find: `\bso (many|much)\b`, write: "n, the number of"},
	{find: `\bas (many|much)\b`, write: "the number of, equal"},
	{find: `\bdear(er|est|ly)?\b`, write: "expensive"},
	{find: `\bcheap(er|ly)? to make\b`, write: "cheap to recompute"},
	{find: `\b(comput|mak|mad)(e|es|ed|ing)\b( \w+){0,3} again\b`, write: "recomputed"},
	{find: `\blearn(ed|t|s)?\b`, write: "label tokens, trained", allow: `learned (absolute |position|embedding)|machine learn|learn (how|from|more)|scikit-learn|not learn to (stop|generate)|"learned\\*"`},
	{find: `\b(told|tells)\b`, write: "detected from, shows, reports"},
	{find: `\bat (the )?most\b`, write: "up to, no more than, peak"},
	{find: `\bheld[- ]out\b`, write: "evaluation set"},
	{find: `\bfar\b`, write: "offloaded", allow: `so far|as far as|far (smaller|larger|more|less|from)`},
	{find: `\bspill(s|ed|ing)?\b`, write: "offload", skip: `/_asm/`},
	{find: `\bhollow\b`, write: "meta (no storage)"},
	{find: `\bplaces?\b`, write: "position, coordinate, rank, directory", allow: `in[ -]place|takes? (its |their )?place|decimal places?`},
	{find: `\bturns?\b`, write: "position in the schedule", allow: `turns? (\w+ ){0,2}(on|off|into)\b|in turn\b|multi-turn|turns [=/-]`, skip: `^(data|hub|tokenizer|internal/jinja)/|^docs/data`},
	{find: `\bmotions?\b`, write: "vote"},
	{find: `\bbonds?\b`, write: "link"},
	{find: `\bcrews?\b`, write: "workers"},
	{find: `\blanes?\b`, write: "communication stream", skip: `^internal/(kernel|backend)/`},
	{find: `\bof which\b`, write: "a second sentence, whose"},
	{find: `\bthat (it|they) (was|were)\b`, write: "a simpler clause"},
	{find: `\bwhose it is\b`, write: "owner"},
	{find: `((?-i:(^|\. )What)|[;:] what) [^?]*$`, write: "the actor as subject"},
	{find: `\b(is|are) what\b`, write: "a noun"},
	{find: `\b\w*(tokenis|initialis|normalis|serialis|optimis|quantis|synchronis|parallelis|recognis|organis|summaris|materialis|vectoris|randomis|minimis|maximis|utilis|specialis|generalis|behaviour|neighbour|colour|honour|favour)\w*`, write: "American spelling", allow: `parallelism|optimistic|specialist|"?optim optimiser `},
	{find: `\b(licence|centred?|grey|labell\w+|cancell(ed|ing)|modelling|signall(ed|ing)|artefacts?|analyse[ds]?|catalogue|whilst|amongst|travelled|programme|judgement|fulfil|totalled|fuell?ed|defence|offence|metre|litre|learnt|misspelt|spelt|burnt)\b`, write: "American spelling", allow: `Sentiment Labelled Sentences`},
}

// wordNames are refused as parts of identifiers, except in kernels, which have lanes of vectors.
var wordNames = []string{"bond", "crew", "dear", "far", "hollow", "lane", "lanes", "learn", "learned", "motion", "motions", "place", "places", "spill", "spilled", "tell", "tells", "told"}

// notChecked are this table, history, data, and keys and texts of other programs.
var notChecked = regexp.MustCompile(`^internal/repotest/words_test\.go$|^docs/log\.md$|^examples/data/|/corpus/|^internal/foreign/testdata/vocabulary/|^(dist|out|runs)/`)

// TestWords refuses such words in comments, strings, names and pages.
func TestWords(t *testing.T) {
	problems, err := checkWords(os.DirFS(repository(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

type matcher struct {
	word
	find, allow, skip *regexp.Regexp
}

var matchers = func() (out []matcher) {
	for _, w := range words {
		m := matcher{word: w, find: regexp.MustCompile("(?i)" + w.find)}
		if w.allow != "" {
			m.allow = regexp.MustCompile("(?i)" + w.allow)
		}
		if w.skip != "" {
			m.skip = regexp.MustCompile(w.skip)
		}
		out = append(out, m)
	}
	return out
}()

// checkWords lists the lines of a tree with such words.
func checkWords(root fs.FS) (problems []string, err error) {
	add := func(where, line string) {
		for _, m := range matchers {
			if m.skip != nil && m.skip.MatchString(where) {
				continue
			}
			text := line
			if m.allow != nil {
				text = m.allow.ReplaceAllString(text, "")
			}
			if hit := m.find.FindString(text); hit != "" {
				problems = append(problems, fmt.Sprintf("%s: %q: write: %s (%s)", where, hit, m.write, strings.TrimSpace(line)))
			}
		}
	}
	block := func(name string, first int, text string) {
		for i, line := range strings.Split(text, "\n") {
			add(fmt.Sprintf("%s:%d", name, first+i), line)
		}
	}
	err = fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(path.Base(name), ".") && name != "." && name != ".ci":
			return fs.SkipDir
		case e.IsDir() || notChecked.MatchString(name) || !isProse(name):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err == nil && len(text) < 1<<20 {
			block(name, 1, string(text))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	files, err := load(root)
	for _, f := range files {
		if notChecked.MatchString(f.path) {
			continue
		}
		line := func(p token.Pos) int { return f.fset.Position(p).Line }
		if !f.generated() {
			for _, g := range f.ast.Comments {
				for _, c := range g.List {
					for i, l := range strings.Split(c.Text, "\n") {
						add(fmt.Sprintf("%s:%d", f.path, line(c.Pos())+i), strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(l), "//"), " "))
					}
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind != token.STRING {
					break
				}
				text, err := strconv.Unquote(n.Value)
				if err == nil && !(f.test && len(text) > 400) { // long texts in tests are data
					block(f.path, line(n.Pos()), text)
				}
			case *ast.Ident:
				for _, part := range camelCase.FindAllString(strings.ReplaceAll(n.Name, "InPlace", ""), -1) {
					if slices.Contains(wordNames, strings.ToLower(part)) && !strings.HasPrefix(f.path, "internal/kernel/") {
						problems = append(problems, fmt.Sprintf("%s: the name %s has the word %s", f.at(n.Pos()), n.Name, part))
					}
				}
			}
			return true
		})
	}
	return problems, err
}

var camelCase = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// isProse reports whether a file other than Go is checked.
func isProse(name string) bool {
	switch path.Ext(name) {
	case ".md", ".txtar", ".sh", ".yaml", ".yml", ".py", ".golden":
		return true
	case ".txt":
		return strings.Contains(name, "testdata/")
	}
	return name == "Makefile" || name == ".ci/run"
}

// TestCheckWords runs the check on texts with and without such words.
func TestCheckWords(t *testing.T) {
	for text, want := range map[string]string{
		"// F computes it on the way back.":            `"way back": write: backward`,
		"// Buffers are let go of.":                    `"let go"`,
		"// F moves so many bytes.":                    `"so many"`,
		"// What is gathered, is freed.":               `the actor as subject`,
		"// F returns nil; what is left is freed.":     `the actor as subject`,
		"// What does F return?":                       "",
		"// F tokenises text.":                         "American spelling",
		"// F uses tensor parallelism.":                "",
		"// Positions are learned position embeddings": "",
		"// Only answers are learned.":                 "label tokens",
		"var x = \"rows are held out\"":                "evaluation set",
		"var placeOf = 1":                              "the name placeOf has the word place",
		"var addInPlace = 1 // in place":               "",
		"// F adds in place.":                          "",
	} {
		problems, err := checkWords(fstest.MapFS{"a/a.go": {Data: []byte("package a\n\n" + text + "\n")}})
		switch {
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case want == "" && len(problems) > 0, want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)):
			t.Errorf("%s: %q, want %q", text, problems, want)
		}
	}
	tree := fstest.MapFS{
		"docs/a.md": {Data: []byte("fine\nAt most 3 ranks.\n")}, "docs/log.md": {Data: []byte("at most")},
		"internal/kernel/a.go": {Data: []byte("package kernel\n\nvar lane = 1 // a lane of a vector\n")},
		"a/testdata/x.txtar":   {Data: []byte("# The crew.\n")},
	}
	problems, err := checkWords(tree)
	if err != nil || len(problems) != 2 || !strings.HasPrefix(problems[0], "a/testdata/x.txtar:1") || !strings.HasPrefix(problems[1], "docs/a.md:2") {
		t.Errorf("%q, %v", problems, err)
	}
}
