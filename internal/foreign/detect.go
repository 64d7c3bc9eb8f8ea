package foreign

import (
	"fmt"
	"slices"
	"strings"

	"trireme/internal/conf"
	"trireme/train"
)

// native is this program's own vocabulary, to the depth that tells formats apart.
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

// formats are all but Native, in the order in which messages list them.
func formats() []*format {
	return []*format{ddpFormat(), fsdpFormat(), freeFormat(), deepspeedFormat(), accelerateFormat()}
}

// detect finds whose file a document is by its keys; nil is this program's own. The vocabulary
// that knows most of the keys wins, and among equals the one with more keys of its own. One that
// knows fewer than half of them is no match: the messages of this program's own file say more.
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
		n := score{known: f.keys.count(doc) - count(doc) + written} // without headings that are not in the file
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
	if best[0] != nil && 2*most.known < count(doc) { // some words in common, as TrainingArguments have
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

// count is how many keys a document has, to the second level.
func count(doc conf.Value) int {
	n := len(doc.Keys)
	for _, k := range doc.Keys {
		n += len(k.Value.Keys)
	}
	return n
}

// count is how many of them the vocabulary knows.
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

// hasSign looks for a key; one that ends in * stands for all that begin so.
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

// group is a document of the format with its keys in their groups.
func (f *format) grouped(doc conf.Value) conf.Value {
	if !f.flat {
		return doc
	}
	return f.keys.regroup(doc)
}

// regroup puts keys that stand at the top level into their group: the last heading without keys
// of its own above them that has such a key, or the only group that has. So a file is read
// that has lost its indentation, or that never had groups.
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
			if at, open := index[k.Name]; open { // a key of it came before its heading
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

// groupOf is the group that a key at the top level belongs to; empty: none, or it is at home.
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
