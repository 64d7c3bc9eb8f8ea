package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"trireme/internal/conf"
	native "trireme/internal/keys"
)

// format is the format of one program's files.
type format struct {
	name  Format
	owner string // in messages: "the DDP trainer's"
	keys  keys
	// signs are keys, at least one in each file of this format.
	signs []string
	// flat: keys may be at the top level instead of in their groups.
	flat bool
	read func(*reader)
}

// reader converts one document to assignments and notes.
type reader struct {
	name    string
	options Options
	format  *format
	doc     conf.Value

	defaults []conf.Assignment // of the file's program
	assigned []conf.Assignment
	fixed    []Fixed
	notes    []Note
	problems conf.Errors
	ranks    int
	classes  []LayerClass
}

// all returns the defaults and then the file's assignments.
func (r *reader) all() []conf.Assignment { return append(slices.Clone(r.defaults), r.assigned...) }

func (r *reader) walk(v conf.Value, path string, ks keys) {
	for _, e := range v.Keys {
		k := key{path: e.Name, where: e.Where, Value: e.Value}
		if path != "" {
			k.path = path + "." + e.Name
		}
		rule, ok := ks[e.Name]
		switch {
		case !ok:
			r.unknown(k, path, ks)
		case rule.under == nil:
			rule.apply(r, k)
		case rule.when != nil && !rule.when(r, k):
		case e.Value.Kind == conf.Group:
			r.walk(e.Value, k.path, rule.under)
		case e.Value.Kind != conf.Null:
			r.notGroup(k, rule.under)
		}
	}
}

func (r *reader) unknown(k key, path string, ks keys) {
	where := "at the top level"
	if path != "" {
		where = "under " + path
	}
	text := fmt.Sprintf("unknown key %q %s in %s file. ", k.name(), where, r.format.owner)
	if near := conf.Nearest(k.name(), ks.candidates(path == "" && r.format.flat)); near != "" {
		text += fmt.Sprintf("did you mean %q?", near)
	} else if other := r.owner(k.path); other != "" {
		text += fmt.Sprintf("%s files have it. try: one format in a file", other)
	} else if same := sameMeaning(k.name(), ks); same != "" {
		text += fmt.Sprintf("did you mean %q?", same)
	} else {
		text += "try: remove it, or " + cmp.Or(keyList(ks), "a key that docs/files-of-other-programs.md lists")
	}
	r.problems = append(r.problems, conf.Problem{Where: k.where, Text: text})
}

// notGroup refuses a value in place of a group of keys.
func (r *reader) notGroup(k key, ks keys) {
	is, try := k.Describe(), ""
	if k.Kind == conf.Scalar {
		is = k.Text
	}
	for _, example := range []struct{ key, value string }{{"enabled", "true"}, {"stage", "2"}} {
		if _, ok := ks[example.key]; ok {
			try = fmt.Sprintf(". try: {%q: %s}", example.key, example.value)
		}
	}
	if names := keyList(ks); names != "" {
		try = " (" + names + ")" + try
	}
	r.fail(k, "is %s, not a group of keys%s", is, try)
}

// sameMeaning returns the name of ks for the setting that name sets in another program: lr for
// learning_rate.
func sameMeaning(name string, ks keys) string {
	meaning := func(name string) string {
		if path, _ := native.Suggest(name); path != "" {
			return path
		}
		return native.ByName(name)
	}
	is := meaning(name)
	if is == "" || native.IsGroup(is) {
		return ""
	}
	for _, other := range ks.names() {
		if meaning(other) == is {
			return other
		}
	}
	return ""
}

// candidates returns the names at one level, with below also those in its groups.
func (ks keys) candidates(below bool) []string {
	names := ks.names()
	for _, group := range ks.names() {
		if below {
			names = append(names, ks[group].under.names()...)
		}
	}
	return names
}

// keyList lists the names of a vocabulary. It is empty for a long one.
func keyList(ks keys) string {
	const most = 20
	names := ks.names()
	if len(names) > most {
		return ""
	}
	return strings.Join(names, ", ")
}

// owner returns the program whose files have a key that this format lacks.
func (r *reader) owner(path string) string {
	for _, f := range formats() {
		if f.name != r.format.name && f.keys.has(strings.Split(path, ".")) {
			return f.owner
		}
	}
	if nativeVocabulary.has(strings.Split(path, ".")) {
		return "this program's own"
	}
	return ""
}

func (r *reader) fail(k key, text string, args ...any) {
	r.refuse(k, fmt.Errorf(text, args...))
}

func (r *reader) refuse(k key, err error) {
	r.problems = append(r.problems, conf.Problem{Where: k.where, Path: k.path, Text: err.Error(), Err: err})
}

func (r *reader) checkValue(k key, of check) bool {
	if k.Kind == conf.Null {
		r.fail(k, "has no value. give one, or remove the key")
		return false
	}
	if err := of(k.Value); err != nil {
		r.fail(k, "%s", err)
		return false
	}
	return true
}

// choose maps a value by names, ignoring case.
func (r *reader) choose(k key, names map[string]string) (string, bool) {
	if k.Kind == conf.Scalar {
		for theirs, ours := range names {
			if strings.EqualFold(theirs, k.Text) {
				return ours, true
			}
		}
	}
	known := slices.Sorted(maps.Keys(names))
	text := fmt.Sprintf("%s is not one of %s", k.Describe(), strings.Join(known, ", "))
	if near := conf.Nearest(k.Text, known); near != "" && k.Kind == conf.Scalar {
		text += fmt.Sprintf(". did you mean %q?", near)
	}
	r.fail(k, "%s", text)
	return "", false
}

// assign assigns path, with the position of k as origin.
func (r *reader) assign(k key, path, value string) {
	r.assigned = append(r.assigned, conf.Assignment{Path: path, Value: value, Where: k.where})
}

// settle assigns a training argument that no other source may contradict.
func (r *reader) settle(k key, path, value string) {
	r.assign(k, path, value)
	r.fixed = append(r.fixed, Fixed{r.assigned[len(r.assigned)-1], k.path})
}

// byDefault assigns defaults of the file's program. pairs are paths and values.
func (r *reader) byDefault(owner string, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		r.defaults = append(r.defaults, conf.Assignment{Path: pairs[i], Value: pairs[i+1], Where: fmt.Sprintf("%s (%s)", r.name, owner)})
	}
}

// note adds a note on a key: "has no effect: ...", "becomes ...".
func (r *reader) note(k key, what string) {
	value := k.Describe()
	if k.Kind == conf.Scalar {
		value = k.Text
	}
	r.notes = append(r.notes, Note{Where: k.where, Key: k.path, Value: value, Effect: what})
}

func (r *reader) find(path ...string) (key, bool) {
	v := r.doc
	if len(path) > 1 {
		var ok bool
		if v, ok = r.doc.Find(path[:len(path)-1]...); !ok {
			return key{}, false
		}
	}
	for _, e := range v.Keys {
		if e.Name == path[len(path)-1] {
			return key{path: strings.Join(path, "."), where: e.Where, Value: e.Value}, true
		}
	}
	return key{}, false
}

// isTrue reports whether a key is present and true.
func (r *reader) isTrue(path ...string) bool {
	k, _ := r.find(path...)
	b, err := k.Bool()
	return b && err == nil
}
