package repotest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// file is one Go file of the tree.
type file struct {
	path    string // with slashes, from the root
	pkg     string // its folder
	test    bool   // a test, or in a package for tests (collectivetest)
	foreign bool   // of another module (generators, tools): only its form is checked
	text    []byte
	ast     *ast.File
	fset    *token.FileSet
}

func (f *file) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(pos).Line)
}

func (f *file) generated() bool { return ast.IsGenerated(f.ast) }

// load parses every Go file below the root but those in testdata and hidden folders.
func load(root fs.FS) ([]*file, error) {
	var files []*file
	others := map[string]bool{}
	err := fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			name := path.Base(p)
			if p != "." && strings.HasPrefix(name, ".") || name == "testdata" || name == "vendor" {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(p, "go.mod")); p != "." && (err == nil || others[path.Dir(p)] || strings.HasPrefix(name, "_")) {
				others[p] = true
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		f := &file{path: p, pkg: path.Dir(p), test: strings.HasSuffix(p, "_test.go") || strings.HasSuffix(path.Dir(p), "test"), foreign: others[path.Dir(p)], fset: token.NewFileSet()}
		if f.text, err = fs.ReadFile(root, p); err != nil {
			return err
		}
		if f.ast, err = parser.ParseFile(f.fset, p, f.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// repository is the root of this module.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Skip("the tests run outside the repository: no go.mod above them")
		}
	}
}
