package conf

import (
	"fmt"
	"reflect"
	"slices"
)

// Value is one value of a document, undecoded. Readers of other programs' files convert it to
// Assignments.
type Value struct {
	Kind   Kind
	Text   string  // of a scalar
	Quoted bool    // the scalar is quoted
	Items  []Value // of a list
	Keys   []Key   // of a group, in the order of the document
	Where  string  // file:line:col
}

// Key is one key of a group.
type Key struct {
	Name  string
	Where string // file:line:col
	Value Value
}

// Kind is the kind of a value.
type Kind int

// The kinds.
const (
	Null   Kind = Kind(nullNode)
	Scalar Kind = Kind(scalarNode)
	List   Kind = Kind(listNode)
	Group  Kind = Kind(mapNode)
)

// Read reads a file. The error is an Errors.
func Read(name string) (string, error) {
	text, err := readFile(name)
	if err != nil {
		return "", Errors{{Where: name, Text: fileError(err), Err: err}}
	}
	return text, nil
}

// Parse parses YAML or JSON. Messages use name as the file name. An empty document is Null. With an
// error, an Errors, the value is the part that could be read.
func Parse(name, text string) (Value, error) {
	root, problems := parse(&origin{label: name, file: true}, text)
	v := Value{Where: name}
	if root != nil {
		v = root.export()
	}
	if len(problems) > 0 {
		return v, Errors(problems)
	}
	return v, nil
}

func (n *node) export() Value {
	v := Value{Kind: Kind(n.kind), Text: n.text, Quoted: n.quoted, Where: n.at()}
	for _, item := range n.items {
		v.Items = append(v.Items, item.export())
	}
	for _, e := range n.entries {
		v.Keys = append(v.Keys, Key{Name: e.key, Where: n.from.at(e.line, e.col), Value: e.value.export()})
	}
	return v
}

// Find returns the value at a path of keys.
func (v Value) Find(path ...string) (Value, bool) {
	for _, name := range path {
		i := slices.IndexFunc(v.Keys, func(k Key) bool { return k.Name == name })
		if i < 0 {
			return Value{}, false
		}
		v = v.Keys[i].Value
	}
	return v, true
}

// Int returns an integer: 1e9 and 2.5e3 are integers, 1.5 is not.
func (v Value) Int() (int64, error) {
	x, err := parseInt(v.Text, 64)
	if v.Kind != Scalar || err != nil {
		return 0, fmt.Errorf("%s is not an integer", v.Describe())
	}
	return x, nil
}

// Float returns a number, quoted or not: 2e-5 is a string in YAML 1.1, so files have both.
func (v Value) Float() (float64, error) {
	x, err := parseFloat(v.Text, 64)
	if v.Kind != Scalar || err != nil {
		return 0, fmt.Errorf("%s is not a number", v.Describe())
	}
	return x, nil
}

// Bool returns a boolean.
func (v Value) Bool() (bool, error) {
	x, ok := parseBool(v.Text)
	if v.Kind != Scalar || !ok {
		return false, fmt.Errorf("%s is not true or false", v.Describe())
	}
	return x, nil
}

// Describe describes the value for a message.
func (v Value) Describe() string {
	return (&node{kind: nodeKind(v.Kind), text: v.Text}).describe()
}

// Assignment sets one key, like --set, with its own origin.
type Assignment struct {
	Path  string // training.max_steps
	Value string // text; for a list, a map or any: YAML
	Where string // origin: ds_config.json:12:9
}

// Unread is a source that could not be read. Load reports its problems with those of other sources.
func Unread(problems Errors) Source { return Source{kind: kindUnread, problems: problems} }

// Assign applies assignments in order.
func Assign(list []Assignment) Source { return Source{kind: kindAssign, assign: list} }

// Paths lists every key of a tree's type, parents first.
func Paths[T any]() []string {
	var out []string
	walkPaths(reflect.TypeFor[T](), func(path string) { out = append(out, path) })
	return out
}
