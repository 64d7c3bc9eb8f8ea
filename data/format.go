package data

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/ordered"
)

// The values of Config.Format that describe rows. The file format is then detected from file names.
const (
	FormatInputIDs         = "input_ids"
	FormatAlpaca           = "alpaca"
	FormatPromptCompletion = "prompt_completion"
	FormatShareGPT         = "sharegpt"
	FormatChat             = "chat"
	FormatSegments         = "segments"
	FormatClassification   = "classification"
)

// fileFormats describe files, rowFormats rows. text is both: a text file is one document, and rows
// of other files may have a text.
var (
	fileFormats = []string{FormatText, FormatJSONL, FormatCSV, FormatTSV, FormatParquet, FormatTokens, FormatGoSource}
	rowFormats  = []string{FormatInputIDs, FormatAlpaca, FormatPromptCompletion, FormatShareGPT, FormatChat, FormatSegments, FormatClassification}
)

// kind returns the format of the files, auto if the configuration does not name it.
func (c Config) kind() string {
	if slices.Contains(fileFormats, c.Format) {
		return c.Format
	}
	return FormatAuto
}

// columns maps this package's column names to the keys of the files.
type columns map[string]string

// columnNames are the names that Config.Columns accepts.
var columnNames = []string{
	"text", "text_pair", "label",
	"prompt", "completion",
	"instruction", "input", "output", "system", "history",
	"messages", "conversations", "role", "content", "from", "value", "tools", "segments",
}

func (c columns) key(name string) string {
	if k, ok := c[name]; ok {
		return k
	}
	return name
}

// value returns the value of a column, nil if null or missing.
func (c columns) value(r *record, name string) any { return r.fields[c.key(name)] }

func (c columns) has(r *record, name string) bool {
	_, ok := r.fields[c.key(name)]
	return ok
}

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

// optional returns the string of a column; "" if missing or null.
func (c columns) optional(r *record, name string) (string, error) {
	if c.value(r, name) == nil {
		return "", nil
	}
	return c.text(r, name)
}

// promptKeys are the key pairs detected as prompt and completion.
var promptKeys = [][2]string{
	{"prompt", "completion"}, {"prompt", "response"}, {"question", "answer"}, {"question", "response"},
	{"query", "response"}, {"query", "answer"}, {"input", "output"}, {"source", "target"},
}

// textKeys are the key pairs detected as the texts of a labeled row.
var textKeys = [][2]string{
	{"text", "text_pair"}, {"sentence1", "sentence2"}, {"question1", "question2"}, {"premise", "hypothesis"},
	{"question", "sentence"}, {"sentence", ""}, {"text", ""}, {"content", ""}, {"review", ""},
}

// keyAliases are further keys detected for columns.
var keyAliases = columns{"output": "response", "input": "context", "label": "labels"}

// withAliases returns c with columns mapped to the aliases that record r has, unless c maps them or
// r has the column itself.
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

// detect returns the format that a record's keys indicate, or "". A label means classification if
// that is the task.
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

// rowFormat returns the configured row format, or detects it from the first record.
func (c Config) rowFormat(s *source, r *record, task Task) (string, error) {
	cols := c.columns()
	detected := cols.detect(r, task)
	if s.format == FormatText && slices.Contains(rowFormats, c.Format) {
		return "", fault.Try(fmt.Errorf("data: %s is plain text, but format %s needs rows", s.path, c.Format), "a file named .jsonl, .csv, .tsv or .parquet")
	}
	if c.Format == FormatText {
		if !cols.has(r, "text") {
			return "", fault.Try(fmt.Errorf("data: %s has keys %s, but not %q", r.where, r.keys(), cols.key("text")), "%s", fault.Set("data.columns.text", "KEY"))
		}
		return FormatText, nil
	}
	if !slices.Contains(rowFormats, c.Format) {
		if detected == "" {
			if key := r.rowsInside(); key != "" {
				return "", fault.Try(fmt.Errorf("data: %s has its rows in the list %q", r.where, key), "jq -c '.%s[]' FILE > rows.jsonl", key)
			}
			for _, name := range slices.Sorted(maps.Keys(cols)) {
				if !cols.has(r, name) {
					return "", fault.Try(fmt.Errorf("data: %s: no key %q for column %s: the row has keys %s", r.where, cols[name], name, r.keys()), "%s", fault.Set("data.columns."+name, "KEY"))
				}
			}
			err, text := fmt.Errorf("data: %s has keys %s, which match no known format: %s", r.where, r.keys(), formatKeys()), fault.Set("data.columns.text", "KEY")
			if task == SequenceClassification {
				return "", fault.Try(err, "%s %s", text, fault.Set("data.columns.label", "KEY"))
			}
			return "", fault.Try(err, "%s, or data.columns.prompt and data.columns.completion", text)
		}
		return detected, nil
	}
	if cols := cols.withAliases(r, c.Format); detected == c.Format || cols.hasRequired(r, c.Format) {
		return c.Format, nil
	}
	if detected == "" || detected == FormatText {
		return "", fault.Try(fmt.Errorf("data: %s has keys %s: format %s needs %s", r.where, r.keys(), c.Format, strings.Join(requiredColumns[c.Format], " and ")), "%s", fault.Set("data.columns."+requiredColumns[c.Format][0], "KEY"))
	}
	return "", fault.Try(fmt.Errorf("data: %s has keys %s: detected %s, but data.format is %s", r.where, r.keys(), detected, c.Format), "data.format: %s (or auto)", detected)
}

// requiredColumns are the columns of each row of a format.
var requiredColumns = map[string][]string{
	FormatInputIDs: {"input_ids"}, FormatAlpaca: {"instruction", "output"}, FormatPromptCompletion: {"prompt", "completion"},
	FormatShareGPT: {"conversations"}, FormatChat: {"messages"}, FormatSegments: {"segments"},
	FormatClassification: {"text", "label"},
}

// formatKeys lists the formats of rows with their required columns, for messages.
func formatKeys() string {
	all := []string{"text (text)"}
	for _, format := range rowFormats {
		all = append(all, fmt.Sprintf("%s (%s)", format, strings.Join(requiredColumns[format], ", ")))
	}
	return strings.Join(all, ", ")
}

// hasRequired reports whether a record has the required columns of a format.
func (c columns) hasRequired(r *record, format string) bool {
	return !slices.ContainsFunc(requiredColumns[format], func(name string) bool { return !c.has(r, name) })
}
