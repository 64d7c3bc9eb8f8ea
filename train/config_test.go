package train_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"trireme/train"
)

// Every configuration key has a comment, its own or for a node its type's, and a lower-case yaml name.
func TestEveryKeyIsDocumented(t *testing.T) {
	keys := 0
	documented(t, reflect.TypeFor[train.Config](), "", &keys)
	if keys < 40 {
		t.Errorf("only %d keys were found", keys)
	}
}

func documented(t *testing.T, node reflect.Type, path string, keys *int) {
	comments := structComments(t, node)
	for i := range node.NumField() {
		f := node.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() {
			continue
		}
		if f.Anonymous && key == "" { // its keys are the node's
			documented(t, f.Type, path, keys)
			continue
		}
		if key == "" || key != strings.ToLower(key) {
			t.Errorf("%s.%s has the yaml key %q", node, f.Name, key)
			continue
		}
		*keys++
		inner := f.Type.Kind() == reflect.Struct && strings.HasPrefix(f.Type.PkgPath(), "trireme")
		if comments[f.Name] == "" && !(inner && structComments(t, f.Type)[""] != "") {
			t.Errorf("%s%s (%s.%s) has no comment", path, key, node, f.Name)
		}
		if inner {
			documented(t, f.Type, path+key+".", keys)
		}
	}
}

// structComments returns a struct's comments by field, and its own under "".
func structComments(t *testing.T, node reflect.Type) map[string]string {
	t.Helper()
	dir := filepath.Join("..", filepath.FromSlash(strings.TrimPrefix(node.PkgPath(), "trireme/")))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				return true
			}
			for _, s := range d.Specs {
				s := s.(*ast.TypeSpec)
				body, ok := s.Type.(*ast.StructType)
				if !ok || s.Name.Name != node.Name() {
					continue
				}
				out[""] = d.Doc.Text() + s.Doc.Text()
				for _, f := range body.Fields.List {
					for _, name := range f.Names {
						out[name.Name] = f.Doc.Text() + f.Comment.Text()
					}
				}
			}
			return true
		})
	}
	return out
}
