package data

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/ordered"
)

// The values of Config.Format that name what a row holds. The files are then of the kind that
// their names say.
const (
	FormatInputIDs         = "input_ids"
	FormatAlpaca           = "alpaca"
	FormatPromptCompletion = "prompt_completion"
	FormatShareGPT         = "sharegpt"
	FormatChat             = "chat"
	FormatSegments         = "segments"
	FormatClassification   = "classification"
)

// fileFormats are the kinds of files, rowFormats those of rows. text is a kind of both: a
// file of it is a document, and of other files it is the rows that have a text.
var (
	fileFormats = []string{FormatText, FormatJSONL, FormatCSV, FormatTSV, FormatParquet, FormatTokens, FormatGoSource}
	rowFormats  = []string{FormatInputIDs, FormatAlpaca, FormatPromptCompletion, FormatShareGPT, FormatChat, FormatSegments, FormatClassification}
)

// kind is the format of the files, auto where the configuration does not name it.
func (c Config) kind() string {
	if slices.Contains(fileFormats, c.Format) {
		return c.Format
	}
	return FormatAuto
}

// columns says under which keys a file has what this package calls by names of its own.
type columns map[string]string

// columnNames are what Columns may rename.
var columnNames = []string{
	"text", "text_pair", "label",
	"prompt", "completion",
	"instruction", "input", "output", "system", "history",
	"messages", "conversations", "role", "content", "from", "value", "tools", "segments",
}

// key is where a file has what is called name here.
func (c columns) key(name string) string {
	if k, ok := c[name]; ok {
		return k
	}
	return name
}

// value is what a record has under a name; null is nothing.
func (c columns) value(r *record, name string) any { return r.fields[c.key(name)] }

// has says whether a record has the key of a name.
func (c columns) has(r *record, name string) bool {
	_, ok := r.fields[c.key(name)]
	return ok
}

// text is the string under a name.
func (c columns) text(r *record, name string) (string, error) {
	v, ok := r.fields[c.key(name)]
	if !ok {
		return "", fault.Try(fmt.Errorf("no key %q: the row has keys %s", c.key(name), r.keys()), "%s", fault.Set("data.columns."+name, "KEY"))
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s is %s, not a string", c.key(name), typeName(v))
	}
	return s, nil
}

// optional is the string under a name; "" where there is none, or null.
func (c columns) optional(r *record, name string) (string, error) {
	if c.value(r, name) == nil {
		return "", nil
	}
	return c.text(r, name)
}

// promptKeys are pairs of keys that hold a prompt and what is to follow it.
var promptKeys = [][2]string{
	{"prompt", "completion"}, {"prompt", "response"}, {"question", "answer"}, {"question", "response"},
	{"query", "response"}, {"query", "answer"}, {"input", "output"}, {"source", "target"},
}

// textKeys are pairs of keys that hold the text, or the two texts, of a row with a label.
var textKeys = [][2]string{
	{"text", "text_pair"}, {"sentence1", "sentence2"}, {"question1", "question2"}, {"premise", "hypothesis"},
	{"question", "sentence"}, {"sentence", ""}, {"text", ""}, {"content", ""}, {"review", ""},
}

// others are keys that mean the same as names of formats.
var keyAliases = columns{"output": "response", "input": "context", "label": "labels"}

// completed is the columns of files whose first record is r: where that lacks a name which
// nothing renames, and has another key of its meaning, the name is renamed to it.
func (c columns) withAliases(r *record, format string) columns {
	out := maps.Clone(c)
	if out == nil {
		out = columns{}
	}
	set := func(name, key string) {
		if _, said := c[name]; !said && !c.has(r, name) && key != "" {
			out[name] = key
		}
	}
	has := func(key string) bool { _, ok := r.fields[key]; return ok }
	switch format {
	case FormatAlpaca:
		for _, name := range []string{"output", "input"} {
			if has(keyAliases[name]) {
				set(name, keyAliases[name])
			}
		}
	case FormatPromptCompletion:
		for _, keys := range promptKeys {
			if has(keys[0]) && has(keys[1]) {
				set("prompt", keys[0])
				set("completion", keys[1])
				break
			}
		}
	case FormatChat:
		if has("conversations") {
			set("messages", "conversations")
		}
	case FormatClassification:
		if has(keyAliases["label"]) {
			set("label", keyAliases["label"])
		}
		for _, keys := range textKeys {
			if has(keys[0]) && (keys[1] == "" || has(keys[1])) {
				set("text", keys[0])
				set("text_pair", keys[1])
				break
			}
		}
	}
	return out
}

// looks is the format that a record has by its keys, "" if it is none that is known. A label
// makes a row one to classify where that is the task.
func (c columns) detect(r *record, task Task) string {
	is := func(format string, names ...string) bool {
		done := c.withAliases(r, format)
		for _, name := range names {
			if !done.has(r, name) {
				return false
			}
		}
		return true
	}
	first := func(name, key string) bool {
		list, _ := c.withAliases(r, FormatChat).value(r, name).([]any)
		if len(list) == 0 {
			return false
		}
		m, _ := list[0].(ordered.Map)
		return m.Has(c.key(key))
	}
	switch {
	case is(FormatInputIDs, "input_ids"):
		return FormatInputIDs
	case task == SequenceClassification && is(FormatClassification, "text", "label"):
		return FormatClassification
	case first("conversations", "from"):
		return FormatShareGPT
	case first("messages", "role"), is(FormatChat, "messages"):
		return FormatChat
	case is(FormatSegments, "segments"):
		return FormatSegments
	case is(FormatAlpaca, "instruction", "output"):
		return FormatAlpaca
	case is(FormatPromptCompletion, "prompt", "completion"):
		return FormatPromptCompletion
	case c.has(r, "text"):
		return FormatText
	case is(FormatClassification, "text", "label"):
		return FormatClassification
	}
	return ""
}

// rowFormat is what the rows of a source hold: what the configuration says, or what the
// first record looks like.
func (c Config) rowFormat(s *source, r *record, task Task) (string, error) {
	cols := c.columns()
	looks := cols.detect(r, task)
	if s.format == FormatText && slices.Contains(rowFormats, c.Format) {
		return "", fault.Try(fmt.Errorf("data: %s is plain text, and format %s is of rows", s.path, c.Format), "call it .jsonl, .csv, .tsv or .parquet")
	}
	if c.Format == FormatText {
		if !cols.has(r, "text") {
			return "", fault.Try(fmt.Errorf("data: %s has keys %s, and no %q", r.where, r.keys(), cols.key("text")), "%s", fault.Set("data.columns.text", "KEY"))
		}
		return FormatText, nil
	}
	if !slices.Contains(rowFormats, c.Format) {
		if looks == "" {
			if key := r.rowsInside(); key != "" {
				return "", fault.Try(fmt.Errorf("data: %s has the rows in a list, %q", r.where, key), "jq -c '.%s[]' FILE > rows.jsonl", key)
			}
			for _, name := range slices.Sorted(maps.Keys(cols)) {
				if !cols.has(r, name) {
					return "", fault.Try(fmt.Errorf("data: %s: no key %q, which is to be the %s: the row has keys %s", r.where, cols[name], name, r.keys()), "%s", fault.Set("data.columns."+name, "KEY"))
				}
			}
			return "", fault.Try(fmt.Errorf("data: %s has keys %s: these are of no known format (%s)", r.where, r.keys(), strings.Join(rowFormats, ", ")), "%s, or data.columns.prompt and data.columns.completion", fault.Set("data.columns.text", "KEY"))
		}
		return looks, nil
	}
	if fits := cols.withAliases(r, c.Format); looks == c.Format || fits.hasRequired(r, c.Format) {
		return c.Format, nil
	}
	if looks == "" || looks == FormatText {
		return "", fault.Try(fmt.Errorf("data: %s has keys %s, which format %s lacks %s in", r.where, r.keys(), c.Format, strings.Join(requiredColumns[c.Format], " and ")), "%s", fault.Set("data.columns."+requiredColumns[c.Format][0], "KEY"))
	}
	return "", fault.Try(fmt.Errorf("data: %s has keys %s: this looks like %s, but format is %s", r.where, r.keys(), looks, c.Format), "data.format: %s (or remove it to detect)", looks)
}

// formatNames are the names that each row of a format has.
var requiredColumns = map[string][]string{
	FormatInputIDs: {"input_ids"}, FormatAlpaca: {"instruction", "output"}, FormatPromptCompletion: {"prompt", "completion"},
	FormatShareGPT: {"conversations"}, FormatChat: {"messages"}, FormatSegments: {"segments"},
	FormatClassification: {"text", "label"},
}

// fit says whether a record has the names of a format.
func (c columns) hasRequired(r *record, format string) bool {
	return !slices.ContainsFunc(requiredColumns[format], func(name string) bool { return !c.has(r, name) })
}
