package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/internal/conf"
	"trireme/internal/keys"
	"trireme/optim"
	"trireme/parallel"
	"trireme/train"
)

// collect lists the keys of train.Config, with comments from the sources at root.
func collect(root string) ([]keys.Key, error) {
	c := &collector{root: root, defaults: train.Default(), structs: map[reflect.Type]comments{}}
	if err := c.group(reflect.TypeFor[train.Config](), ""); err != nil {
		return nil, err
	}
	return c.table, nil
}

type collector struct {
	root     string
	defaults train.Config
	structs  map[reflect.Type]comments
	table    []keys.Key
}

// comments are a struct's comments by field, with its own at "".
type comments map[string]string

func (c *collector) group(t reflect.Type, path string) error {
	docs, err := c.comments(t)
	if err != nil {
		return err
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "" && f.Anonymous:
			if err := c.group(f.Type, path); err != nil {
				return err
			}
			continue
		case name == "" || name == "-":
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		if err := c.key(f, at, docs[f.Name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) key(f reflect.StructField, path, comment string) error {
	kind := typeName(f.Type)
	if kind == "" && f.Type.Kind() == reflect.Struct {
		if comment == "" {
			docs, err := c.comments(f.Type)
			if err != nil {
				return err
			}
			_, comment, _ = strings.Cut(docs[""], ": ") // Training is the node `training`: batch, ...
		}
		meaning := sentence(trim(comment, f.Name))
		c.table = append(c.table, keys.Key{Path: path, Type: keys.Group, Meaning: meaning})
		return c.group(f.Type, path)
	}
	k := keys.Key{Path: path, Type: kind, Default: conf.Get(c.defaults, path)}
	if x, ok := reflect.Zero(f.Type).Interface().(conf.Shortened); ok {
		k.Default = conf.Get(c.defaults, path+"."+x.ShortKey())
	}
	k.Meaning, k.Values = parse(trim(comment, f.Name), k.Default)
	if x, ok := reflect.Zero(f.Type).Interface().(conf.Chooser); ok {
		k.Values = x.Choices()
	}
	if kind == "" || k.Meaning == "" && k.Values == nil {
		return fmt.Errorf("%s: the field %s of type %s needs a comment, and its type a name here", path, f.Name, f.Type)
	}
	c.table = append(c.table, k)
	return nil
}

// typeName returns the type in the reference; "" for a group.
func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[device.Bytes]():
		return "size, such as 60GiB"
	case reflect.TypeFor[parallel.Reshard]():
		return "true, false or integer"
	case reflect.TypeFor[train.SegmentCount]():
		return "integer or sqrt"
	case reflect.TypeFor[optim.Config]():
		return "name or map"
	case reflect.TypeFor[[]optim.GroupConfig](), reflect.TypeFor[[]checkpoint.Tier]():
		return "list of maps"
	case reflect.TypeFor[train.VocabSize]():
		return "integer or auto"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "text"
	case reflect.Pointer:
		return typeName(t.Elem()) + ", or null"
	case reflect.Map:
		return "map"
	case reflect.Slice:
		return "list of " + typeName(t.Elem()) + "s"
	case reflect.Array:
		return fmt.Sprintf("list of %d %ss", t.Len(), typeName(t.Elem()))
	}
	return ""
}

// trim removes the field's name from its comment: "Seed seeds weights" becomes "seeds weights", "Eps is
// AdamW's epsilon" becomes "AdamW's epsilon".
func trim(comment, name string) string {
	s := strings.Join(strings.Fields(comment), " ")
	s = strings.TrimPrefix(s, name+": ")
	s, named := strings.CutPrefix(s, name+" ")
	for _, verb := range []string{"is ", "are "} {
		if named {
			s = strings.TrimPrefix(s, verb)
		}
	}
	return s
}

var (
	oneOf     = regexp.MustCompile(`One of ([^.]*)\. ?`)
	byDefault = regexp.MustCompile(`Default ([^ ]+|\[[^]]*\])\.$`)
)

// parse removes the values and the default, which have their own columns, from a comment. A default that
// differs from the program's stays.
func parse(comment, value string) (meaning string, values []string) {
	if m := oneOf.FindStringSubmatch(comment); m != nil {
		for v := range strings.SplitSeq(m[1], "|") {
			values = append(values, strings.TrimSpace(v))
		}
		comment = strings.Replace(comment, m[0], "", 1)
	}
	if m := byDefault.FindStringSubmatch(comment); m != nil && same(m[1], value) {
		comment = strings.TrimSuffix(comment, m[0])
	}
	return sentence(comment), values
}

func same(written, value string) bool {
	value = strings.Trim(value, `"`)
	if written == `""` {
		written = ""
	}
	if written == value || written == value+".0" || written+".0" == value {
		return true
	}
	var a, b float64
	n, _ := fmt.Sscan(written, &a)
	m, _ := fmt.Sscan(value, &b)
	return n == 1 && m == 1 && a == b
}

// sentence capitalizes the first letter, unless the first word is a key or a value.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	first, _, _ := strings.Cut(s, " ")
	if s == "" || strings.ContainsAny(first, "_:") {
		return s
	}
	r := []rune(s)
	return string(unicode.ToUpper(r[0])) + string(r[1:])
}

// comments reads a struct's comments from the sources of its package.
func (c *collector) comments(t reflect.Type) (comments, error) {
	if out, ok := c.structs[t]; ok {
		return out, nil
	}
	dir := filepath.Join(c.root, filepath.FromSlash(strings.TrimPrefix(t.PkgPath(), "trireme/")))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	out := comments{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				for _, s := range d.Specs {
					out.add(d, s.(*ast.TypeSpec), t.Name())
				}
			}
			return true
		})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no struct of that name in %s", t, dir)
	}
	c.structs[t] = out
	return out, nil
}

func (out comments) add(d *ast.GenDecl, s *ast.TypeSpec, name string) {
	body, ok := s.Type.(*ast.StructType)
	if !ok || s.Name.Name != name {
		return
	}
	out[""] = strings.Join(strings.Fields(d.Doc.Text()+s.Doc.Text()), " ")
	for _, f := range body.Fields.List {
		for _, n := range f.Names {
			out[n.Name] = f.Doc.Text() + f.Comment.Text()
		}
	}
}
