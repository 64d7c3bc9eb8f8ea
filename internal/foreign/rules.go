package foreign

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trireme/internal/conf"
)

// keys is a vocabulary: the names at one level, each with what becomes of it.
type keys map[string]rule

// rule says what becomes of a key: of a group of keys by under, of a value by apply.
type rule struct {
	under keys
	apply func(r *reader, k key)
	// when says whether a group is read at all; nil: always.
	when func(r *reader, k key) bool
	// says is what becomes of a value, in Markdown, for the table of the format.
	doc string
}

// key is one that stands in the file.
type key struct {
	path  string // training.model_name
	where string // file:line:col
	conf.Value
}

// name is the last part of the path.
func (k key) name() string { return k.path[strings.LastIndexByte(k.path, '.')+1:] }

func group(under keys) rule { return rule{under: under} }

// check says what is wrong with a value.
type check func(conf.Value) error

func integer(v conf.Value) error { _, err := v.Int(); return err }
func number(v conf.Value) error  { _, err := v.Float(); return err }
func boolean(v conf.Value) error { _, err := v.Bool(); return err }
func textual(v conf.Value) error {
	if v.Kind != conf.Scalar {
		return fmt.Errorf("is %s, not a text", v.Describe())
	}
	return nil
}

// custom is a rule of its own. says is for the table.
func custom(says string, apply func(r *reader, k key)) rule { return rule{apply: apply, doc: says} }

// elsewhere is a rule for a key that is read together with others, before or after the walk.
func readTogether(says string) rule { return custom(says, func(*reader, key) {}) }

// to assigns the value to a key of our tree.
func to(path string, right check) rule {
	return custom("`"+path+"`", func(r *reader, k key) {
		if r.checkValue(k, right) {
			r.assign(k, path, k.Text)
		}
	})
}

// maybe is a rule for a key whose null means that it is absent.
func nullable(of rule) rule {
	return custom(of.doc, func(r *reader, k key) {
		if k.Kind != conf.Null {
			of.apply(r, k)
		}
	})
}

// auto is a rule for a value that DeepSpeed's integrations fill in where it is "auto": the rest
// of the configuration decides.
func auto(of rule) rule {
	return custom(of.doc, func(r *reader, k key) {
		if !isAuto(k.Value) {
			of.apply(r, k)
		}
	})
}

func isAuto(v conf.Value) bool { return v.Kind == conf.Scalar && v.Text == "auto" }

// as assigns what the value is called here. Case does not matter.
func enum(path string, names map[string]string) rule {
	return custom("`"+path+"`", func(r *reader, k key) {
		if name, ok := r.choose(k, names); ok {
			r.assign(k, path, name)
		}
	})
}

// ignored is for keys without a meaning here. A value that asks for something is noted.
func ignored(why string) rule {
	return custom("no effect: "+why, func(r *reader, k key) {
		if enabled(k.Value) {
			r.note(k, "has no effect: "+why)
		}
	})
}

// silent is for keys whose every value comes to the same here.
func noEffect(why string) rule { return readTogether("no effect: " + why) }

// only is for keys that have one value here. Another is noted.
func constant(value, why string) rule {
	return custom("always "+value+": "+why, func(r *reader, k key) {
		if k.Kind != conf.Null && !isAuto(k.Value) && !sameText(k.Value, value) {
			r.note(k, "has no effect: "+why)
		}
	})
}

// must is for keys whose other values would change what is trained.
func required(value, why string) rule {
	return custom("must be "+value+": "+why, func(r *reader, k key) {
		if k.Kind != conf.Null && !isAuto(k.Value) && !sameText(k.Value, value) {
			r.fail(k, "is %s: %s. try: %s, or remove the key", k.Describe(), why, value)
		}
	})
}

// refused is for what would change what is trained and is not available.
func refused(what, try string) rule {
	return custom("refused: "+what, func(r *reader, k key) {
		if enabled(k.Value) {
			r.fail(k, "%s. try: %s", what, try)
		}
	})
}

// checked is a rule for a key that is read together with others.
func checked(says string, right check) rule {
	return custom(says, func(r *reader, k key) { r.checkValue(k, right) })
}

// sameText compares a value with a text, as numbers where both are.
func sameText(v conf.Value, text string) bool {
	x, err := v.Float()
	y, other := conf.Value{Kind: conf.Scalar, Text: text}.Float()
	if err == nil && other == nil {
		return x == y
	}
	return v.Kind == conf.Scalar && strings.EqualFold(v.Text, text)
}

// asks says whether a value asks for something. null, false, zero, no, auto and what is empty
// do not. A group does if the word "enabled" in it, or in its groups, says so; one without
// that word does by being there.
func enabled(v conf.Value) bool {
	switch v.Kind {
	case conf.Null:
		return false
	case conf.List:
		return len(v.Items) > 0
	case conf.Group:
		on, said := enabledKey(v)
		return on || !said && len(v.Keys) > 0
	}
	return !slices.Contains([]string{"", "false", "no", "none", "off", "0", "0.0", "auto"}, strings.ToLower(v.Text))
}

// switched says what the words "enabled" of a group come to, and whether there is one. That of
// the group itself is stronger than those below it.
func enabledKey(v conf.Value) (on, said bool) {
	if word, ok := v.Find("enabled"); ok {
		return enabled(word), true
	}
	for _, k := range v.Keys {
		if k.Value.Kind == conf.Group {
			below, has := enabledKey(k.Value)
			on, said = on || below, said || has
		}
	}
	return on, said
}

// has tells whether a vocabulary has a path.
func (ks keys) has(path []string) bool {
	rule, ok := ks[path[0]]
	switch {
	case !ok || len(path) == 1:
		return ok
	case rule.under == nil:
		return true // a value that is a group, which its rule reads
	}
	return rule.under.has(path[1:])
}

func (ks keys) names() []string { return slices.Sorted(maps.Keys(ks)) }
