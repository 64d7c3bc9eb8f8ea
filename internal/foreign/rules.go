package foreign

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trireme/internal/conf"
)

// keys is a vocabulary: the names at one level with their rules.
type keys map[string]rule

// rule handles a key: a group with under, a value with apply.
type rule struct {
	under keys
	apply func(r *reader, k key)
	// when reports whether to read a group; nil: always.
	when func(r *reader, k key) bool
	// doc describes the effect of a value, in Markdown, for the table of the format.
	doc string
}

type key struct {
	path  string // training.model_name
	where string // file:line:col
	conf.Value
}

func (k key) name() string { return k.path[strings.LastIndexByte(k.path, '.')+1:] }

func group(under keys) rule { return rule{under: under} }

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

// custom returns a rule. says is for the table.
func custom(says string, apply func(r *reader, k key)) rule { return rule{apply: apply, doc: says} }

// readTogether is a rule for a key that the format reads with others, outside the walk.
func readTogether(says string) rule { return custom(says, func(*reader, key) {}) }

func to(path string, right check) rule {
	return custom("`"+path+"`", func(r *reader, k key) {
		if r.checkValue(k, right) {
			r.assign(k, path, k.Text)
		}
	})
}

// nullable is a rule for a key for which null means absent.
func nullable(of rule) rule {
	return custom(of.doc, func(r *reader, k key) {
		if k.Kind != conf.Null {
			of.apply(r, k)
		}
	})
}

// auto is a rule for a key for which "auto" leaves the value to the rest of the configuration.
func auto(of rule) rule {
	return custom(of.doc, func(r *reader, k key) {
		if !isAuto(k.Value) {
			of.apply(r, k)
		}
	})
}

func isAuto(v conf.Value) bool { return v.Kind == conf.Scalar && v.Text == "auto" }

// enum assigns a value mapped by names, ignoring case.
func enum(path string, names map[string]string) rule {
	return custom("`"+path+"`", func(r *reader, k key) {
		if name, ok := r.choose(k, names); ok {
			r.assign(k, path, name)
		}
	})
}

// ignored is a rule for a key without effect, noted if it enables something.
func ignored(why string) rule {
	return custom("no effect: "+why, func(r *reader, k key) {
		if enabled(k.Value) {
			r.note(k, "has no effect: "+why)
		}
	})
}

// noEffect is a rule for a key without effect that is not worth a note.
func noEffect(why string) rule { return readTogether("no effect: " + why) }

// constant is a rule for a key with one supported value. Others are noted.
func constant(value, why string) rule {
	return custom("always "+value+": "+why, func(r *reader, k key) {
		if k.Kind != conf.Null && !isAuto(k.Value) && !sameText(k.Value, value) {
			r.note(k, "has no effect: "+why)
		}
	})
}

// required is a rule for a key with one supported value. Others would change training and are refused.
func required(value, why string) rule {
	return custom("must be "+value+": "+why, func(r *reader, k key) {
		if k.Kind != conf.Null && !isAuto(k.Value) && !sameText(k.Value, value) {
			r.fail(k, "is %s: %s. try: %s, or remove the key", k.Describe(), why, value)
		}
	})
}

// refused is a rule for an unsupported feature that would change training.
func refused(what, try string) rule {
	return custom("refused: "+what, func(r *reader, k key) {
		if enabled(k.Value) {
			r.fail(k, "%s. try: %s", what, try)
		}
	})
}

// checked is readTogether with a check.
func checked(says string, right check) rule {
	return custom(says, func(r *reader, k key) { r.checkValue(k, right) })
}

// sameText compares a value with a text, as numbers if possible.
func sameText(v conf.Value, text string) bool {
	x, err := v.Float()
	y, other := conf.Value{Kind: conf.Scalar, Text: text}.Float()
	if err == nil && other == nil {
		return x == y
	}
	return v.Kind == conf.Scalar && strings.EqualFold(v.Text, text)
}

// enabled reports whether a value enables something: not null, false, 0, no, none, off, auto or empty.
// A group is enabled by its key "enabled", or by one in its groups; without that key, by its presence.
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

// enabledKey evaluates the keys "enabled" of a group. The group's own overrides those below.
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

func (ks keys) has(path []string) bool {
	rule, ok := ks[path[0]]
	switch {
	case !ok || len(path) == 1:
		return ok
	case rule.under == nil:
		return true // the rule reads the group
	}
	return rule.under.has(path[1:])
}

func (ks keys) names() []string { return slices.Sorted(maps.Keys(ks)) }
