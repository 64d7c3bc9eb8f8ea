package repotest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const module = "trireme"

// maxLines is the maximum length of a file.
const maxLines = 500

// checkImports checks the layers and the bans. Tests may import across layers and up, since Go forbids
// cycles, but not packages of commands.
func checkImports(files []*file) []string {
	var out []string
	for _, f := range files {
		if f.foreign {
			continue
		}
		layer, entry, listed := layerOf(f.pkg)
		if !listed && !under(f.pkg, outside...) {
			out = append(out, fmt.Sprintf("%s: package %s is in no layer. add it to layers in internal/repotest/layers_test.go, above its imports and below its importers", f.path, f.pkg))
			continue
		}
		if listed && f.pkg != entry && len(below(entry)) > 0 {
			out = append(out, fmt.Sprintf("%s: package %s is not in layers, unlike others in %s. add it in internal/repotest/layers_test.go", f.path, f.pkg, entry))
		}
		for _, spec := range f.ast.Imports {
			to, ok := strings.CutPrefix(importPath(spec), module+"/")
			if !ok || to == f.pkg {
				continue
			}
			where := f.at(spec.Pos())
			if f.test {
				if under(to, "internal/cli", "cmd") && !under(f.pkg, "internal/cli", "cmd") && !under(f.pkg, outside...) {
					out = append(out, fmt.Sprintf("%s: a test of %s imports %s. test a command with a script in internal/cli/testdata/script", where, f.pkg, to))
				}
				continue
			}
			if under(to, outside...) {
				out = append(out, fmt.Sprintf("%s: %s imports %s, which only tests the repository", where, f.pkg, to))
				continue
			}
			toLayer, toEntry, ok := layerOf(to)
			switch {
			case !ok, !listed, toLayer < layer: // an unlisted target is reported at its own files
			case toLayer > layer:
				out = append(out, fmt.Sprintf("%s: %s (layer %d) imports %s (layer %d): imports point down. declare a small interface in %s, or move the code up", where, f.pkg, layer, to, toLayer, f.pkg))
			case toEntry != entry && !slices.Contains(beside[entry], toEntry):
				out = append(out, fmt.Sprintf("%s: %s imports %s of its own layer (%d). packages of a layer do not import each other: move common code down, or the importing code up", where, f.pkg, to, layer))
			}
			for _, b := range bans {
				if under(f.pkg, b.from...) && !under(f.pkg, b.except...) && under(to, b.to...) {
					out = append(out, fmt.Sprintf("%s: %s must not import %s: %s", where, f.pkg, to, b.why))
				}
			}
		}
	}
	return out
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return p
}

func checkUnsafe(files []*file) []string {
	var out []string
	for _, f := range files {
		for _, spec := range f.ast.Imports {
			if importPath(spec) == "unsafe" && !under(f.pkg, unsafeAllowed...) && !f.foreign {
				out = append(out, fmt.Sprintf("%s: unsafe is limited to %s, which are tested with guard values. add a function there", f.at(spec.Pos()), strings.Join(unsafeAllowed, ", ")))
			}
		}
	}
	return out
}

// checkEnvironment finds os.Getenv, os.LookupEnv and os.Environ outside environmentAllowed.
func checkEnvironment(files []*file) []string {
	var out []string
	for _, f := range files {
		if f.test || f.foreign || under(f.pkg, environmentAllowed...) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Getenv", "LookupEnv", "Environ"}, sel.Sel.Name) {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "os" {
				out = append(out, fmt.Sprintf("%s: os.%s: only %s read the environment. take the value as a field of a Config", f.at(sel.Pos()), sel.Sel.Name, strings.Join(environmentAllowed, ", ")))
			}
			return true
		})
	}
	return out
}

// flag matches flags of the command line for keys and for the number of ranks.
var flag = regexp.MustCompile(`--(set|nproc|resume)\b`)

// checkFlags refuses flags in packages below the command line, whose users have no flags.
func checkFlags(files []*file) []string {
	top, _, _ := layerOf("internal/cli")
	var out []string
	for _, f := range files {
		if layer, _, listed := layerOf(f.pkg); f.test || f.foreign || !listed || layer >= top || f.ast.Name.Name == "main" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && flag.MatchString(lit.Value) {
				out = append(out, fmt.Sprintf("%s: %s is a flag, but this package is below the command line. use fault.Try with fault.Set(key, value), which internal/cli prints as a flag", f.at(lit.Pos()), flag.FindString(lit.Value)))
			}
			return true
		})
	}
	return out
}

// formGroups are the files that call World.Group. On each rank they form all groups, also those without the
// rank: a backend that compiles collectives takes the ranks of every group from these calls.
var formGroups = []string{"parallel/mesh.go", "internal/bench/collectives.go", "internal/preflight/reduce.go", "bench/detect/worker.go", "internal/backend/record/group.go", "internal/backend/xla/backend.go"}

// checkGroups finds calls of World.Group elsewhere.
func checkGroups(files []*file) []string {
	var out []string
	for _, f := range files {
		if f.test || f.foreign || slices.Contains(formGroups, f.path) || under(f.pkg, "collective/collectivetest") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Group" {
				out = append(out, fmt.Sprintf("%s: World.Group: %s form groups, on every rank all of a name. use parallel.NewMesh, or add the file to formGroups if it does the same", f.at(call.Pos()), strings.Join(formGroups, ", ")))
			}
			return true
		})
	}
	return out
}

// decides are functions of package strings that code may use to test an error's text.
var decides = []string{"Contains", "HasPrefix", "HasSuffix", "Index", "EqualFold"}

// checkErrorText finds decisions by an error's text.
func checkErrorText(files []*file) []string {
	var out []string
	for _, f := range files {
		if f.test || f.foreign {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(decides, fun.Sel.Name) {
				return true
			}
			if x, ok := fun.X.(*ast.Ident); !ok || x.Name != "strings" {
				return true
			}
			text, ok := call.Args[0].(*ast.CallExpr)
			if !ok || len(text.Args) > 0 {
				return true
			}
			if m, ok := text.Fun.(*ast.SelectorExpr); ok && m.Sel.Name == "Error" {
				out = append(out, fmt.Sprintf("%s: strings.%s over an error's text: texts are for people. use errors.Is or errors.As", f.at(call.Pos()), fun.Sel.Name))
			}
			return true
		})
	}
	return out
}

func checkNames(files []*file) []string {
	var out []string
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f.pkg] {
			continue
		}
		seen[f.pkg] = true
		for _, name := range []string{path.Base(f.pkg), f.ast.Name.Name} {
			if slices.Contains(forbiddenNames, name) {
				out = append(out, fmt.Sprintf("%s: %s is not a name for a package. name it after its main type, or move the code to its users", f.path, name))
				break
			}
		}
	}
	return out
}

// checkDocs requires a package comment in doc.go, or in the file with the package's name (main.go).
func checkDocs(files []*file) []string {
	sources, documented := map[string][]*file{}, map[string]bool{}
	for _, f := range files {
		if !f.foreign && !strings.HasSuffix(f.path, "_test.go") {
			sources[f.pkg] = append(sources[f.pkg], f)
		}
	}
	var out []string
	for pkg, fs := range sources {
		for _, f := range fs {
			if f.ast.Doc != nil && slices.Contains([]string{"doc.go", path.Base(pkg) + ".go", f.ast.Name.Name + ".go"}, path.Base(f.path)) {
				documented[pkg] = true
			}
		}
		if !documented[pkg] {
			out = append(out, fmt.Sprintf("%s: no doc.go with a package comment. state the purpose of the package and describe its main type", pkg))
		}
	}
	slices.Sort(out)
	return out
}

// checkLength skips generated files.
func checkLength(files []*file) []string {
	var out []string
	for _, f := range files {
		if n := bytes.Count(f.text, []byte("\n")); n > maxLines && !f.foreign && !strings.HasSuffix(f.path, "_test.go") && !f.generated() {
			out = append(out, fmt.Sprintf("%s: %d lines, the limit is %d. split the file", f.path, n, maxLines))
		}
	}
	return out
}

func checkFormat(files []*file) []string {
	var out []string
	for _, f := range files {
		if formatted, err := format.Source(f.text); err != nil || !bytes.Equal(formatted, f.text) {
			out = append(out, fmt.Sprintf("%s: not as gofmt writes it. run: gofmt -w %s", f.path, f.path))
		}
	}
	return out
}
