package data

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/jinja"
	"trireme/internal/ordered"
	"trireme/tokenizer"
)

// chatML is the template that ChatTemplate calls chatml.
const chatML = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// chatTemplate turns conversations into text.
type chatTemplate struct {
	name    string // for messages
	t       *jinja.Template
	digest  [32]byte
	special map[string]string
	prompts bool // it knows what an answer of the assistant begins with
	source  string
}

// template is the chat template that c names, or the tokenizer's.
func (c Config) template(tok *tokenizer.Tokenizer) (*chatTemplate, error) {
	name, source := "the tokenizer's chat template", tok.ChatTemplate()
	switch c.ChatTemplate {
	case "", chatOfTokenizer:
		if source == "" {
			return nil, fault.Try(errors.New("data: conversations need a chat template, and the tokenizer has none"), "%s, or a FILE", fault.Set("data.chat_template", "chatml"))
		}
	case chatMLName:
		name, source = "the chat template chatml", chatML
	default:
		blob, err := os.ReadFile(c.ChatTemplate)
		if err != nil {
			return nil, fmt.Errorf("data: chat_template: %w", err)
		}
		name, source = c.ChatTemplate, string(blob)
	}
	t, err := jinja.Parse(source)
	if err != nil {
		return nil, fault.Try(fmt.Errorf("data: %s cannot be run here: %w", name, err), "%s, or a FILE", fault.Set("data.chat_template", "chatml"))
	}
	return &chatTemplate{name, t, sha256.Sum256([]byte(source)), tok.SpecialTokens(), strings.Contains(source, "add_generation_prompt"), source}, nil
}

// render gives a conversation as text; prompt adds what an answer of the assistant begins with.
func (t *chatTemplate) render(messages []any, tools any, prompt bool) (*jinja.Output, error) {
	vars := map[string]any{
		"messages": messages, "tools": tools, "documents": nil, "add_generation_prompt": prompt,
		"strftime_now": strftime,
	}
	for name, token := range t.special {
		vars[name] = token
	}
	return t.t.Render(vars)
}

// strftime writes the date that templates are told, by the letters of its format that are known:
// one that does not change, so that rows have the same tokens whenever they are made.
func strftime(format string) string {
	return strings.NewReplacer(
		"%d", "26", "%e", "26", "%b", "Jul", "%B", "July", "%Y", "2024", "%y", "24", "%m", "07", "%A", "Friday", "%a", "Fri",
		"%H", "00", "%M", "00", "%S", "00", "%F", "2024-07-26", "%T", "00:00:00", "%j", "208", "%%", "%",
	).Replace(format)
}

// full is the whole conversation.
func (t *chatTemplate) full(messages []any, tools any) (*jinja.Output, error) {
	out, err := t.render(messages, tools, false)
	var raised *jinja.RaisedError
	switch {
	case errors.As(err, &raised):
		return nil, fmt.Errorf("%s does not take this conversation: %s", t.name, oneLine(raised.Message))
	case err != nil:
		return nil, fault.Try(fmt.Errorf("%s: %w", t.name, err), "%s, or a FILE", fault.Set("data.chat_template", "chatml"))
	}
	return out, nil
}

// oneLine is a text of a stranger, fit for a message.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 200 {
		s = s[:200] + " ..."
	}
	return s
}

// mark stands where an answer begins or ends, to find the place: no conversation holds it.
const mark = "\uE000\uE001\uE002"

// span is the part of text, which is the whole conversation, that message i made: from what
// the template writes before any answer to the end of what it writes after this one.
//
// The place is found by rendering less of the conversation, and what that gives is used only
// if it is a beginning of text. Where the template treats a last message in another way than
// one in the middle, a mark at the ends of the message shows where they are; then the part
// is the message alone, and rest is true.
func (t *chatTemplate) span(text string, messages []any, tools any, i int, role string) (lo, hi int, rest bool, err error) {
	lo, hi = -1, -1
	if role == "assistant" && t.prompts {
		lo = t.begin(text, messages[:i], tools, true)
	}
	if hi = t.begin(text, messages[:i+1], tools, false); i == len(messages)-1 {
		hi = len(text)
	}
	if lo < 0 {
		lo = t.marked(text, messages, tools, i, true)
	}
	if lo < 0 && role == "assistant" {
		lo = t.begin(text, messages[:i], tools, false)
	}
	if hi < lo {
		hi, rest = t.marked(text, messages, tools, i, false), true
	}
	if lo < 0 || hi < lo {
		return 0, 0, false, fault.Try(fmt.Errorf("%s does not show where message %d begins and ends", t.name, i+1), "%s, or a template with {%% generation %%} marks", fault.Set("data.train_on", "all"))
	}
	return lo, hi, rest, nil
}

// begin is the length of part of a conversation if text begins with it, else -1.
func (t *chatTemplate) begin(text string, messages []any, tools any, prompt bool) int {
	out, err := t.render(messages, tools, prompt)
	if err != nil || !strings.HasPrefix(text, out.Text) {
		return -1
	}
	return len(out.Text)
}

// marked is where the content of message i begins or ends in text: where a mark stands if it
// is put there and changes nothing else; else -1.
func (t *chatTemplate) marked(text string, messages []any, tools any, i int, begin bool) int {
	m, _ := messages[i].(ordered.Map)
	content, ok := m.Get("content").(string)
	if !ok {
		return -1
	}
	// Templates may cut white space off, or keep it.
	if begin {
		content = mark + strings.TrimLeft(content, " \t\r\n")
	} else {
		content = strings.TrimRight(content, " \t\r\n") + mark
	}
	changed := slices.Clone(m)
	for i := range changed {
		if changed[i].Key == "content" {
			changed[i].Value = content
		}
	}
	list := append(append(append(make([]any, 0, len(messages)), messages[:i]...), changed), messages[i+1:]...)
	out, err := t.render(list, tools, false)
	if err != nil {
		return -1
	}
	before, after, found := strings.Cut(out.Text, mark)
	if !found || len(before)+len(after) > len(text) || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
		return -1
	}
	end := len(text) - len(after)
	if strings.TrimSpace(text[len(before):end]) != "" {
		return -1
	}
	if begin {
		return len(before)
	}
	return end
}
