package foreign

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trireme/internal/conf"
)

// format is one program's files.
type format struct {
	name  Format
	owner string // in messages: "the DDP trainer's"
	keys  keys
	// signs are keys of which a file of this format has one at least.
	signs []string
	// flat: files may have lost their groups.
	flat bool
	read func(*reader)
}

// reader turns one document into assignments and notes.
type reader struct {
	name    string
	options Options
	format  *format
	doc     conf.Value

	defaults []conf.Assignment // what is so where the file says nothing
	assigned []conf.Assignment
	fixed    []conf.Assignment
	notes    []Note
	problems conf.Errors
	ranks    int
	classes  []LayerClass
}

// all is every assignment: those of the file over those of its silence.
func (r *reader) all() []conf.Assignment { return append(slices.Clone(r.defaults), r.assigned...) }

// walk applies a vocabulary to a group.
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
			r.fail(k, "is %s, not a group of keys (%s)", e.Value.Describe(), keyList(rule.under))
		}
	}
}

func (r *reader) unknown(k key, path string, ks keys) {
	where := "at the top level"
	if path != "" {
		where = "under " + path
	}
	text := fmt.Sprintf("unknown key %q %s of %s file. ", k.name(), where, r.format.owner)
	if near := conf.Nearest(k.name(), ks.candidates(path == "" && r.format.flat)); near != "" {
		text += fmt.Sprintf("did you mean %q?", near)
	} else if other := r.owner(k.path); other != "" {
		text += fmt.Sprintf("%s files have it. try: one or the other", other)
	} else {
		text += "keys there: " + keyList(ks)
	}
	r.problems = append(r.problems, conf.Problem{Where: k.where, Text: text})
}

// meant are the names at one level, and with below those in its groups.
func (ks keys) candidates(below bool) []string {
	names := ks.names()
	for _, group := range ks.names() {
		if below {
			names = append(names, ks[group].under.names()...)
		}
	}
	return names
}

// listed is the names of a vocabulary, or the first of many.
func keyList(ks keys) string {
	const most = 40
	names := ks.names()
	if len(names) > most {
		return fmt.Sprintf("%s, and %d more (docs/files-of-other-programs.md)", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// owner is whose files have a key that this one's do not.
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

// refuse is fail for an error that says what to set.
func (r *reader) refuse(k key, err error) {
	r.problems = append(r.problems, conf.Problem{Where: k.where, Path: k.path, Text: err.Error(), Err: err})
}

// right checks a value's type.
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

// choose finds what a value is called here.
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

// assign gives a key of our tree a value, on behalf of a key of the file.
func (r *reader) assign(k key, path, value string) {
	r.assigned = append(r.assigned, conf.Assignment{Path: path, Value: value, Where: k.where})
}

// settle assigns a training argument that cannot be given otherwise.
func (r *reader) settle(k key, path, value string) {
	r.assign(k, path, value)
	r.fixed = append(r.fixed, r.assigned[len(r.assigned)-1])
}

// byDefault assigns what the file's program does where the file is silent. pairs are paths of
// our tree and values.
func (r *reader) byDefault(owner string, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		r.defaults = append(r.defaults, conf.Assignment{Path: pairs[i], Value: pairs[i+1], Where: fmt.Sprintf("%s (%s)", r.name, owner)})
	}
}

// note says of a key what becomes of its value: "has no effect: ...", "becomes ...".
func (r *reader) note(k key, what string) {
	value := k.Describe()
	if k.Kind == conf.Scalar {
		value = k.Text
	}
	r.notes = append(r.notes, Note{Where: k.where, Key: k.path, Value: value, Effect: what})
}

// find is a key of the document.
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

// isTrue says that a key is there and true.
func (r *reader) isTrue(path ...string) bool {
	k, _ := r.find(path...)
	b, err := k.Bool()
	return b && err == nil
}
