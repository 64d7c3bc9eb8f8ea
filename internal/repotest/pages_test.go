package repotest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// developerPages tell those who change the code where to look.
var developerPages = []string{"CONTRIBUTING.md", "docs/architecture.md", "docs/adding-*.md", "docs/library.md"}

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	filePath   = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)
	identifier = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?$`)
	testName   = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
)

// TestPagesNameCode: the files, identifiers and tests that the pages for developers name exist.
func TestPagesNameCode(t *testing.T) {
	root := os.DirFS(repository(t))
	files, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	named := names(files)
	seen := 0
	for _, pattern := range developerPages {
		pages, err := fs.Glob(root, pattern)
		if err != nil || len(pages) == 0 {
			t.Errorf("%s: no page, %v", pattern, err)
		}
		for _, p := range pages {
			text, err := fs.ReadFile(root, p)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
					checked, err := named.check(root, m[1])
					if checked {
						seen++
					}
					if err != nil {
						t.Errorf("%s:%d: %v", p, i+1, err)
					}
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d names were checked", seen)
	}
}

// nameSet has declared names: folders, package.Name, package.Type.Member, tests.
type nameSet map[string]bool

func names(files []*file) nameSet {
	out := nameSet{}
	for _, f := range files {
		if f.foreign {
			continue
		}
		pkg := strings.TrimSuffix(f.ast.Name.Name, "_test")
		out[path.Base(f.pkg)] = true
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					out[pkg+"."+d.Name.Name], out[d.Name.Name] = true, true
					continue
				}
				out[pkg+"."+receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					out.add(pkg, s)
				}
			}
		}
	}
	return out
}

func (n nameSet) add(pkg string, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			n[pkg+"."+id.Name] = true
		}
	case *ast.TypeSpec:
		n[pkg+"."+s.Name.Name] = true
		var members *ast.FieldList
		switch u := s.Type.(type) {
		case *ast.StructType:
			members = u.Fields
		case *ast.InterfaceType:
			members = u.Methods
		default:
			return
		}
		for _, m := range members.List {
			for _, id := range m.Names {
				n[pkg+"."+s.Name.Name+"."+id.Name] = true
			}
			if len(m.Names) == 0 { // embedded: its members are not looked for
				n[pkg+"."+s.Name.Name+".*"] = true
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// check reports whether a text between back quotes names code, and whether that exists.
func (n nameSet) check(root fs.FS, text string) (checked bool, err error) {
	text = strings.TrimSuffix(text, "()")
	if testName.MatchString(text) {
		if !n[text] {
			err = fmt.Errorf("there is no test %s", text)
		}
		return true, err
	}
	if m := identifier.FindStringSubmatch(text); m != nil && n[m[1]] {
		if !n[text] && !n[m[1]+"."+m[2]+".*"] {
			err = fmt.Errorf("the code declares no %s", text)
		}
		return true, err
	}
	first, _, below := strings.Cut(text, "/")
	if !below || !filePath.MatchString(text) {
		return false, nil
	}
	if info, e := fs.Stat(root, first); e != nil || !info.IsDir() {
		return false, nil
	}
	if _, e := fs.Stat(root, strings.TrimSuffix(text, "/")); e != nil {
		err = fmt.Errorf("there is no file %s", text)
	}
	return true, err
}

// TestTroubleshootingQuotes: each message that docs/troubleshooting.md quotes is in the code. In the
// page … stands for what a message is made with.
func TestTroubleshootingQuotes(t *testing.T) {
	root := os.DirFS(repository(t))
	files, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range files {
		if f.test || f.foreign {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					code.WriteString(s + "\x00")
				}
			}
			return true
		})
	}
	page, err := fs.ReadFile(root, "docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	literals := code.String()
	quotes := regexp.MustCompile("(?s)```text\n(.*?)\n```").FindAllStringSubmatch(string(page), -1)
	for _, q := range quotes {
		for _, part := range strings.Split(q[1], "…") {
			if strings.TrimSpace(part) != "" && !strings.Contains(literals, part) {
				t.Errorf("the page quotes %q: no string of the code has %q", q[1], part)
			}
		}
	}
	if len(quotes) < 20 {
		t.Errorf("the page quotes %d messages", len(quotes))
	}
}
