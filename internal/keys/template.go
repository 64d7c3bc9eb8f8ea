package keys

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Template is the commented configuration file of trireme init.
type Template struct {
	Model, Data string // model.path and data.path; empty: marked to fill in
}

// fillIn marks a line that needs a value.
const fillIn = "  # FILL IN"

// uncommented are the keys that most runs set. Others are commented out.
var uncommented = []string{
	"model.path", "data.path", "training.micro_batch_size", "training.num_train_epochs", "training.learning_rate", "training.lr_scheduler",
	"training.warmup_steps", "parallel.strategy", "checkpoint.save_every_n_steps", "checkpoint.keep_last_n",
}

// YAML returns the file, with all keys, meanings and defaults. name is its file name.
func (s Template) YAML(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Configuration of a training run:
#
#   trireme train --config %s
#
# All keys with their defaults. Remove the # before a key to set it. For types, values and
# meanings run: trireme config keys
`, name)
	for _, k := range All() {
		s.write(&b, k)
	}
	return b.String()
}

func (s Template) write(b *strings.Builder, k Key) {
	depth := strings.Count(k.Path, ".")
	indent := strings.Repeat("  ", depth)
	if k.Type == Group && depth == 0 {
		b.WriteString("\n")
	}
	text := k.Meaning
	if len(k.Values) > 0 {
		text = strings.TrimSpace("One of " + strings.Join(k.Values, ", ") + ". " + text)
	}
	if (depth > 0 || k.Type != Group) && !strings.HasSuffix(b.String(), ":\n") {
		b.WriteString("\n")
	}
	for _, line := range Wrap(text, 96-len(indent)) {
		fmt.Fprintf(b, "%s# %s\n", indent, line)
	}
	given := map[string]string{"model.path": s.Model, "data.path": s.Data}[k.Path]
	switch {
	case k.Type == Group:
		fmt.Fprintf(b, "%s%s:\n", indent, Name(k.Path))
	case given != "":
		q, _ := json.Marshal(given) // a string
		fmt.Fprintf(b, "%s%s: %s\n", indent, Name(k.Path), q)
	case k.Path == "model.path":
		fmt.Fprintf(b, "%s%s: ./path/to/model%s\n", indent, Name(k.Path), fillIn)
	case k.Path == "data.path":
		fmt.Fprintf(b, "%s%s: ./path/to/train.jsonl%s\n", indent, Name(k.Path), fillIn)
	case slices.Contains(uncommented, k.Path):
		fmt.Fprintf(b, "%s%s: %s\n", indent, Name(k.Path), k.Default)
	default:
		fmt.Fprintf(b, "%s#%s: %s\n", indent, Name(k.Path), k.Default)
	}
}

// Wrap breaks a text between words into lines of up to width bytes.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
