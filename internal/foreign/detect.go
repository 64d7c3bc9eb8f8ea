package foreign

import (
	"fmt"
	"slices"
	"strings"

	"trireme/internal/conf"
	"trireme/train"
)

// nativeVocabulary is this program's own vocabulary, two levels deep.
var nativeVocabulary = nativeKeys()

func nativeKeys() keys {
	out := keys{}
	for _, path := range conf.Paths[train.Config]() {
		top, below, nested := strings.Cut(path, ".")
		if !nested {
			out[top] = rule{}
			continue
		}
		if out[top].under == nil {
			out[top] = rule{under: keys{}}
		}
		below, _, _ = strings.Cut(below, ".")
		out[top].under[below] = rule{}
	}
	return out
}

// formats are all but Native, in the order of messages.
func formats() []*format {
	return []*format{ddpFormat(), fsdpFormat(), freeFormat(), deepspeedFormat(), accelerateFormat()}
}

// detect detects a document's format from its keys; nil is Native. The vocabulary with the most of the
// keys wins, on a tie the one with more signs. A vocabulary with fewer than half of the keys does not
// match, since Native's messages are more helpful.
func detect(name string, doc conf.Value, o Options) (*format, error) {
	if o.Format != "" {
		return byName(o.Format), nil
	}
	type score struct{ known, signs int }
	most, best := score{nativeVocabulary.count(doc), 0}, []*format{nil}
	if most.known == count(doc) {
		return nil, nil
	}
	for _, f := range formats() {
		written := count(doc)
		doc := f.grouped(doc)
		n := score{known: f.keys.count(doc) - count(doc) + written} // without headings missing in the file
		for _, sign := range f.signs {
			if hasSign(doc, sign) {
				n.signs++
			}
		}
		switch {
		case n.signs == 0 || n.known < most.known:
		case n.known > most.known || best[0] != nil && n.signs > most.signs:
			most, best = n, []*format{f}
		case best[0] == nil || n.signs == most.signs:
			best = append(best, f)
		}
	}
	if best[0] != nil && 2*most.known < count(doc) { // few common keys, as with TrainingArguments
		return nil, nil
	}
	if len(best) == 1 {
		return best[0], nil
	}
	for _, f := range best {
		if f != nil && string(f.name) == o.Mode {
			return f, nil
		}
	}
	return nil, conf.Errors{{Where: name, Text: ambiguous(best)}}
}

func byName(name Format) *format {
	for _, f := range formats() {
		if f.name == name {
			return f
		}
	}
	return nil
}

func ambiguous(among []*format) string {
	var owners, try []string
	for _, f := range among {
		if f == nil {
			owners, try = append(owners, "this program's own"), append(try, "--config_format native")
			continue
		}
		flag := "--config_format "
		if f.name == DDP || f.name == FSDP {
			flag = "--mode "
		}
		owners, try = append(owners, f.owner), append(try, flag+string(f.name))
	}
	return fmt.Sprintf("has keys of %s. try: %s", strings.Join(owners, " and of "), strings.Join(try, ", or "))
}

// count returns the number of keys in a document, two levels deep.
func count(doc conf.Value) int {
	n := len(doc.Keys)
	for _, k := range doc.Keys {
		n += len(k.Value.Keys)
	}
	return n
}

// count returns the number of those keys in the vocabulary.
func (ks keys) count(doc conf.Value) (n int) {
	for _, k := range doc.Keys {
		if !ks.has([]string{k.Name}) {
			continue
		}
		n++
		for _, below := range k.Value.Keys {
			if ks.has([]string{k.Name, below.Name}) {
				n++
			}
		}
	}
	return n
}

// hasSign looks for a key, or with a final * for keys with that prefix.
func hasSign(doc conf.Value, sign string) bool {
	path := strings.Split(sign, ".")
	prefix, wild := strings.CutSuffix(path[len(path)-1], "*")
	if !wild {
		_, ok := doc.Find(path...)
		return ok
	}
	v, ok := doc.Find(path[:len(path)-1]...)
	return ok && slices.ContainsFunc(v.Keys, func(k conf.Key) bool { return strings.HasPrefix(k.Name, prefix) })
}

// grouped returns a document of the format with its keys in their groups.
func (f *format) grouped(doc conf.Value) conf.Value {
	if !f.flat {
		return doc
	}
	return f.keys.regroup(doc)
}

// regroup moves keys at the top level into their group: the last empty heading above them with such a
// key, or the only group with it. This reads files without indentation or groups.
func (ks keys) regroup(doc conf.Value) conf.Value {
	out := conf.Value{Kind: doc.Kind, Text: doc.Text, Items: doc.Items, Where: doc.Where}
	index := map[string]int{}
	heading := ""
	for _, k := range doc.Keys {
		group := ""
		if k.Value.Kind != conf.Group {
			group = ks.groupOf(k.Name, heading)
		}
		if group == "" {
			if ks[k.Name].under != nil {
				heading = k.Name
			}
			if at, open := index[k.Name]; open { // a key of the group preceded its heading
				out.Keys[at].Value.Keys = append(out.Keys[at].Value.Keys, k.Value.Keys...)
				continue
			}
			index[k.Name] = len(out.Keys)
			out.Keys = append(out.Keys, k)
			continue
		}
		at, open := index[group]
		if !open {
			at = len(out.Keys)
			index[group] = at
			out.Keys = append(out.Keys, conf.Key{Name: group, Where: k.Where, Value: conf.Value{Where: k.Where}})
		}
		g := &out.Keys[at].Value
		if g.Kind == conf.Null || g.Kind == conf.Group {
			g.Kind, g.Keys = conf.Group, append(slices.Clip(g.Keys), k)
		}
	}
	return out
}

// groupOf returns the group of a key at the top level, or "" if it belongs there or nowhere.
func (ks keys) groupOf(name, heading string) string {
	if _, home := ks[name]; home {
		return ""
	}
	if _, ok := ks[heading].under[name]; ok {
		return heading
	}
	found := ""
	for group, rule := range ks {
		if _, ok := rule.under[name]; ok {
			if found != "" {
				return ""
			}
			found = group
		}
	}
	return found
}
