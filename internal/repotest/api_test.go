package repotest

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAPI finds types of internal packages in the exported declarations of public packages. A program
// outside this module cannot name them; a public alias makes one nameable.
func TestAPI(t *testing.T) {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Name}}", "./...")
	list.Dir = repository(t)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	exports, public := map[string]string{}, []string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 {
			continue // unsafe has no export data
		}
		exports[f[0]] = f[1]
		if strings.HasPrefix(f[0], module+"/") && !internal(f[0]) && f[2] != "main" {
			public = append(public, f[0])
		}
	}
	if len(public) < 20 {
		t.Fatalf("%d public packages: %q", len(public), public)
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, path := range public {
		p, err := imp.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range leaks(p) {
			t.Error(message)
		}
	}
}

// TestLeaks runs leaks on declarations that leak and on ones that do not.
func TestLeaks(t *testing.T) {
	hidden := types.NewPackage(module+"/internal/x", "x")
	secret := types.NewNamed(types.NewTypeName(token.NoPos, hidden, "Secret", nil), types.NewStruct(nil, nil), nil)
	field := func(p *types.Package, name string) types.Type {
		return types.NewStruct([]*types.Var{types.NewField(token.NoPos, p, name, types.NewSlice(secret), false)}, nil)
	}
	for _, c := range []struct {
		name string
		typ  func(p *types.Package) types.Type
		want int
	}{
		{"an exported field", func(p *types.Package) types.Type { return field(p, "F") }, 1},
		{"a field of the package's own", func(p *types.Package) types.Type { return field(p, "f") }, 0},
		{"a pointer", func(p *types.Package) types.Type { return types.NewPointer(secret) }, 1},
		{"a result", func(p *types.Package) types.Type {
			return types.NewSignatureType(nil, nil, nil, nil, types.NewTuple(types.NewVar(token.NoPos, p, "", secret)), false)
		}, 1},
		{"a public alias", func(p *types.Package) types.Type {
			return types.NewPointer(types.NewAlias(types.NewTypeName(token.NoPos, p, "Public", nil), secret))
		}, 0},
	} {
		p := types.NewPackage(module+"/p", "p")
		p.Scope().Insert(types.NewVar(token.NoPos, p, "V", c.typ(p)))
		if got := leaks(p); len(got) != c.want {
			t.Errorf("%s: %q, want %d", c.name, got, c.want)
		}
	}
}

func internal(path string) bool { return strings.Contains("/"+path+"/", "/internal/") }

// leaks lists the types of internal packages that exported declarations of p mention.
func leaks(p *types.Package) []string {
	var out []string
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		report := func(where string, t types.Type) {
			mentioned(t, func(n *types.TypeName) {
				out = append(out, fmt.Sprintf("%s.%s mentions %s.%s, which programs outside this module cannot name. export an alias of it, or move it", p.Path(), where, n.Pkg().Path(), n.Name()))
			})
		}
		tn, declared := o.(*types.TypeName)
		if !declared {
			report(name, o.Type())
			continue
		}
		if tn.IsAlias() {
			continue
		}
		report(name, o.Type().Underlying())
		methods := types.NewMethodSet(types.NewPointer(o.Type()))
		for i := range methods.Len() {
			if m := methods.At(i).Obj(); m.Exported() && !types.IsInterface(o.Type()) {
				report(name+"."+m.Name(), m.Type())
			}
		}
	}
	return out
}

// mentioned calls found for each internal type that t mentions where a user of t sees it.
func mentioned(t types.Type, found func(*types.TypeName)) {
	named := func(n *types.TypeName, args *types.TypeList) {
		if n.Pkg() != nil && internal(n.Pkg().Path()) && strings.HasPrefix(n.Pkg().Path(), module+"/") {
			found(n)
		}
		for i := range args.Len() {
			mentioned(args.At(i), found)
		}
	}
	switch t := t.(type) {
	case *types.Alias:
		named(t.Obj(), t.TypeArgs())
	case *types.Named:
		named(t.Obj(), t.TypeArgs())
	case *types.Pointer:
		mentioned(t.Elem(), found)
	case *types.Slice:
		mentioned(t.Elem(), found)
	case *types.Array:
		mentioned(t.Elem(), found)
	case *types.Chan:
		mentioned(t.Elem(), found)
	case *types.Map:
		mentioned(t.Key(), found)
		mentioned(t.Elem(), found)
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); f.Exported() {
				mentioned(f.Type(), found)
			}
		}
	case *types.Interface:
		for i := range t.NumExplicitMethods() {
			mentioned(t.ExplicitMethod(i).Type(), found)
		}
		for i := range t.NumEmbeddeds() {
			mentioned(t.EmbeddedType(i), found)
		}
	case *types.Union:
		for i := range t.Len() {
			mentioned(t.Term(i).Type(), found)
		}
	case *types.Signature:
		mentioned(t.Params(), found)
		mentioned(t.Results(), found)
		for i := range t.TypeParams().Len() {
			mentioned(t.TypeParams().At(i).Constraint(), found)
		}
	case *types.Tuple:
		for i := range t.Len() {
			mentioned(t.At(i).Type(), found)
		}
	}
}
