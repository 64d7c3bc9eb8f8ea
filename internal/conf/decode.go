package conf

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

type decoder struct {
	root     reflect.Value
	origins  Origins
	problems Errors
	bad      map[string]bool   // paths with a problem at or below them
	copied   map[string]bool   // paths of pointers and maps copied from the defaults
	unread   bool              // a document could not be read, so values may be missing
	nodes    map[string]string // position of the last write to a node, for errors of the whole node
	hint     Hint              // may be nil
	listed   map[string]bool   // groups whose keys a problem has listed
	former   []Problem         // obsolete keys: Where and Path
}

func (d *decoder) problem(p Problem) {
	d.problems = append(d.problems, p)
	d.spoil(p.Path)
}

// spoil excludes a path from validation.
func (d *decoder) spoil(path string) {
	for path != "" {
		d.bad[path] = true
		path = parent(path)
	}
	d.bad[""] = true
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i]
	}
	return ""
}

func (d *decoder) failf(n *node, path, format string, args ...any) {
	d.problem(Problem{Where: n.at(), Path: path, Text: fmt.Sprintf(format, args...)})
}

// value decodes n into v, which is settable.
func (d *decoder) value(n *node, v reflect.Value, path string) {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		d.pointer(n, v, path)
		return
	}
	if n.kind == rawNode {
		if n = d.raw(n, t, path); n == nil {
			return
		}
	}
	if isText(t) && n.kind == scalarNode {
		d.text(n, v, path)
		return
	}
	switch {
	case isNode(t):
		d.structure(n, v, path)
	case t.Kind() == reflect.Map:
		d.dictionary(n, v, path)
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		d.list(n, v, path)
	case t.Kind() == reflect.Interface && t.NumMethod() == 0:
		v.SetZero()
		if x := untyped(n); x != nil {
			v.Set(reflect.ValueOf(x))
		}
		d.origins[path] = n.at()
	default:
		d.scalar(n, v, path)
	}
}

// raw parses text from outside a document: as YAML for composite targets, else as a scalar.
func (d *decoder) raw(n *node, t reflect.Type, path string) *node {
	if n.text == "null" && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) {
		return &node{from: n.from}
	}
	composite := isNode(t) || t.Kind() == reflect.Map || t.Kind() == reflect.Interface
	list := t.Kind() == reflect.Slice || t.Kind() == reflect.Array
	if !isText(t) && (composite || list) {
		text := n.text
		if list && !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "-") && text != "" {
			text = "[" + text + "]"
		} else if list && strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "- ") {
			text = "[" + text + "]" // negative numbers, not a block list
		}
		out, problems := parse(n.from, text)
		for _, p := range problems {
			p.Path = path
			d.problem(p)
		}
		if len(problems) > 0 {
			return nil
		}
		if out == nil {
			out = &node{from: n.from}
		}
		return out
	}
	return &node{kind: scalarNode, text: n.text, from: n.from}
}

func (d *decoder) pointer(n *node, v reflect.Value, path string) {
	if n.kind == nullNode || n.kind == rawNode && n.text == "null" {
		v.SetZero()
		d.origins[path] = n.at()
		return
	}
	if !d.copied[path] {
		fresh := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem())
		}
		v.Set(fresh)
		d.copied[path] = true
	}
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	d.value(n, v.Elem(), path)
}

func (d *decoder) structure(n *node, v reflect.Value, path string) {
	switch n.kind {
	case nullNode:
		return // a group with all keys commented out
	case mapNode:
	default:
		d.failf(n, path, "is %s, not a group of keys (%s)", n.describe(), keyList(fields(v.Type())))
		return
	}
	fs := fields(v.Type())
	former := formerOf(v)
	for _, e := range n.entries {
		i := slices.IndexFunc(fs, func(f field) bool { return f.name == e.key })
		if slices.Contains(former, e.key) {
			d.former = append(d.former, Problem{Where: n.from.at(e.line, 0), Path: join(path, e.key)})
			continue
		}
		if i < 0 {
			d.unknown(n, e, fs, path)
			continue
		}
		d.nodes[join(path, e.key)] = n.from.at(e.line, 0)
		d.value(e.value, v.FieldByIndex(fs[i].index), join(path, e.key))
	}
}

// Former is a node with obsolete keys. They have no effect, and Loaded.Former lists them.
type Former interface{ Former() []string }

func formerOf(v reflect.Value) []string {
	if f, ok := v.Interface().(Former); ok {
		return f.Former()
	}
	return nil
}

func (d *decoder) unknown(n *node, e entry, fs []field, path string) {
	where := "at the top level"
	if path != "" {
		where = "under " + path
	}
	text := fmt.Sprintf("unknown key %q %s. ", clip(e.key), where)
	p := Problem{Where: n.from.at(e.line, 0)}
	meant, why := d.meant(e.key, fs, path)
	if meant != "" {
		shown := meant
		if parent(meant) == path {
			shown = strings.TrimPrefix(meant, join(path, ""))
		}
		text += fmt.Sprintf("did you mean %q%s?", shown, why)
		d.spoil(meant) // its value is missing
	} else if why != "" {
		text += why
	} else if d.listed[path] {
		text += "the keys there are listed above"
		p.Unknown, p.Group = true, path
	} else {
		text += "keys there: " + keyList(fs)
		d.listed[path] = true
		p.Unknown, p.Group = true, path
	}
	p.Text = text
	d.problem(p)
	d.spoil(path)
}

// meant suggests a key for an unknown one: another spelling, another program's name, a typo, or a key of
// another group. why is the explanation.
func (d *decoder) meant(key string, fs []field, path string) (meant, why string) {
	for _, f := range fs {
		if fold(f.name) == fold(key) {
			return join(path, f.name), ""
		}
	}
	near := Nearest(key, names(fs))
	if strings.HasSuffix(path, "]") { // an element of a list
		if near != "" {
			near = join(path, near)
		}
		return near, ""
	}
	if meant, why = d.hinted(join(path, key)); meant != "" || why != "" {
		return meant, why
	}
	if near != "" {
		return join(path, near), ""
	}
	return d.misplaced(key), ""
}

func (d *decoder) hinted(path string) (meant, why string) {
	if d.hint == nil {
		return "", ""
	}
	return d.hint(path)
}

// misplaced finds a key by its name, perhaps misspelled, if only one group has it.
func (d *decoder) misplaced(key string) string {
	paths := map[string][]string{} // by the key's last part
	walkPaths(d.root.Type(), func(path string) {
		name := path[strings.LastIndexByte(path, '.')+1:]
		paths[name] = append(paths[name], path)
	})
	if found := paths[Nearest(key, slices.Sorted(maps.Keys(paths)))]; len(found) == 1 {
		return found[0]
	}
	return ""
}

func keyList(fs []field) string { return strings.Join(names(fs), ", ") }

// Shortened is a map that may also be written as a scalar, the value of its key ShortKey.
type Shortened interface{ ShortKey() string }

func (d *decoder) dictionary(n *node, v reflect.Value, path string) {
	if n.kind == nullNode {
		if !n.from.file { // --set key=null clears it; in a file it is a group without keys
			v.SetZero()
			maps.DeleteFunc(d.origins, func(p, _ string) bool { return strings.HasPrefix(p, path+".") })
		}
		return
	}
	if short, ok := v.Interface().(Shortened); ok && n.kind == scalarNode {
		v.SetZero()
		maps.DeleteFunc(d.origins, func(p, _ string) bool { return strings.HasPrefix(p, path+".") })
		n = &node{kind: mapNode, from: n.from, line: n.line, col: n.col, entries: []entry{{short.ShortKey(), n.line, n.col, n}}}
	}
	if n.kind != mapNode {
		or := ""
		if _, ok := v.Interface().(Shortened); ok {
			or = "a name or "
		}
		d.failf(n, path, "is %s, not %sa group of keys", n.describe(), or)
		return
	}
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		panic(fmt.Sprintf("conf: %s: a map's keys must be strings, not %s", path, t.Key()))
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(t))
	} else if !d.copied[path] {
		fresh := reflect.MakeMap(t)
		for _, k := range v.MapKeys() {
			fresh.SetMapIndex(k, v.MapIndex(k))
		}
		v.Set(fresh)
	}
	d.copied[path] = true
	for _, e := range n.entries {
		key := reflect.ValueOf(e.key).Convert(t.Key())
		elem := reflect.New(t.Elem()).Elem()
		if old := v.MapIndex(key); old.IsValid() {
			elem.Set(old)
		}
		d.value(e.value, elem, join(path, e.key))
		v.SetMapIndex(key, elem)
	}
}

func (d *decoder) list(n *node, v reflect.Value, path string) {
	if n.kind != listNode && !(n.kind == nullNode && v.Kind() == reflect.Slice) {
		d.failf(n, path, "is %s, not a list", n.describe())
		return
	}
	if v.Kind() == reflect.Array && len(n.items) != v.Len() {
		d.failf(n, path, "takes %d values, not %d", v.Len(), len(n.items))
		return
	}
	out := v
	if v.Kind() == reflect.Slice {
		out = reflect.New(v.Type()).Elem() // the zero value where the list is empty
		if len(n.items) > 0 {
			out.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
		}
	}
	// A list is one value: its elements have no origins.
	inner := &decoder{root: d.root, hint: d.hint, origins: Origins{}, bad: map[string]bool{}, copied: map[string]bool{}, nodes: map[string]string{}, listed: d.listed}
	for i, item := range n.items {
		inner.value(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	for _, p := range inner.problems {
		d.problem(p)
	}
	if len(inner.problems) > 0 {
		d.spoil(path)
	}
	v.Set(out)
	d.origins[path] = n.at()
}

func (d *decoder) text(n *node, v reflect.Value, path string) {
	var err error
	c, chooses := v.Interface().(Chooser)
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		err = u.UnmarshalText([]byte(n.text))
	} else if err = OneOf(n.text, c.Choices()...); err == nil {
		v.SetString(n.text)
	}
	if err != nil {
		text := err.Error()
		if chooses {
			near := Nearest(n.text, c.Choices())
			if s, ok := c.(Synonyms); ok && s.Meant(n.text) != "" {
				near = s.Meant(n.text)
			}
			text = notOneOf(n.text, near, c.Choices()).Error()
		}
		d.problem(Problem{Where: n.at(), Path: path, Text: text, Err: err})
		return
	}
	d.origins[path] = n.at()
}

// Synonyms is a Chooser that knows words for its values, which messages suggest. Meant returns "" for others.
type Synonyms interface{ Meant(word string) string }

// Chooser is an enumeration with a list of values. A string type needs no UnmarshalText. The message
// for an invalid value lists the values and suggests the nearest.
type Chooser interface{ Choices() []string }

// untyped converts a node to map[string]any, []any, bool, int64, float64, string or nil.
func untyped(n *node) any {
	switch n.kind {
	case listNode:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = untyped(item)
		}
		return out
	case mapNode:
		out := map[string]any{}
		for _, e := range n.entries {
			out[e.key] = untyped(e.value)
		}
		return out
	case nullNode:
		return nil
	}
	if n.quoted {
		return n.text
	}
	if b, ok := parseBool(n.text); ok {
		return b
	}
	if i, err := parseInt(n.text, 64); err == nil && !strings.ContainsAny(n.text, ".") {
		return i
	}
	if f, err := parseFloat(n.text, 64); err == nil {
		return f
	}
	return n.text
}

// defaults records the origin "default" for values that no source has set.
func (d *decoder) defaults(v reflect.Value, path string) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct && isNode(v.Type()) {
		for _, f := range fields(v.Type()) {
			d.defaults(v.FieldByIndex(f.index), join(path, f.name))
		}
		return
	}
	if v.Kind() == reflect.Map && v.Len() > 0 {
		for _, k := range sortedKeys(mapKeys(v)) {
			d.defaults(mapKeys(v)[k], join(path, k))
		}
		return
	}
	if _, ok := d.origins[path]; !ok {
		d.origins[path] = "default"
	}
}

// mapKeys returns the elements of a string-keyed map.
func mapKeys(v reflect.Value) map[string]reflect.Value {
	out := make(map[string]reflect.Value, v.Len())
	for _, k := range v.MapKeys() {
		out[k.String()] = v.MapIndex(k)
	}
	return out
}
