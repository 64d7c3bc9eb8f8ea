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

const chatML = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

type chatTemplate struct {
	name    string // for messages
	t       *jinja.Template
	digest  [32]byte
	special map[string]string
	prompts bool // supports add_generation_prompt
	source  string
}

// template returns the chat template of c, or the tokenizer's.
func (c Config) template(tok *tokenizer.Tokenizer) (*chatTemplate, error) {
	name, source := "the tokenizer's chat template", tok.ChatTemplate()
	switch c.ChatTemplate {
	case "", chatOfTokenizer:
		if source == "" {
			return nil, fault.Try(errors.New("data: conversations need a chat template, but the tokenizer has none"), "%s, or a FILE", fault.Set("data.chat_template", "chatml"))
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
		return nil, fault.Try(fmt.Errorf("data: %s is not supported: %w", name, err), "%s, or a FILE", fault.Set("data.chat_template", "chatml"))
	}
	return &chatTemplate{name, t, sha256.Sum256([]byte(source)), tok.SpecialTokens(), strings.Contains(source, "add_generation_prompt"), source}, nil
}

// render renders a conversation; prompt sets add_generation_prompt.
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

// strftime formats a constant date, so that rows have the same tokens on any day.
func strftime(format string) string {
	return strings.NewReplacer(
		"%d", "26", "%e", "26", "%b", "Jul", "%B", "July", "%Y", "2024", "%y", "24", "%m", "07", "%A", "Friday", "%a", "Fri",
		"%H", "00", "%M", "00", "%S", "00", "%F", "2024-07-26", "%T", "00:00:00", "%j", "208", "%%", "%",
	).Replace(format)
}

// full renders the whole conversation.
func (t *chatTemplate) full(messages []any, tools any) (*jinja.Output, error) {
	out, err := t.render(messages, tools, false)
	var raised *jinja.RaisedError
	switch {
	case errors.As(err, &raised):
		return nil, fmt.Errorf("%s rejects this conversation: %s", t.name, oneLine(raised.Message))
	case err != nil:
		return nil, fault.Try(fmt.Errorf("%s: %w", t.name, err), "%s, or a FILE", fault.Set("data.chat_template", "chatml"))
	}
	return out, nil
}

// oneLine makes untrusted text fit for a message.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 200 {
		s = s[:200] + " ..."
	}
	return s
}

// mark is inserted at the start or end of a message to find its position. No conversation contains
// it.
const mark = "\uE000\uE001\uE002"

// span returns the byte range of message i in text, the whole conversation: from what the template
// writes before any answer to the end of what it writes after this one.
//
// It renders prefixes of the conversation, and uses one only if text begins with it. If the
// template renders a last message differently, a mark at the ends of the message finds them; then
// the range is the message alone, and rest is true.
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
		return 0, 0, false, fault.Try(fmt.Errorf("%s: cannot find the text of message %d in its output", t.name, i+1), "%s, or a template with {%% generation %%} blocks", fault.Set("data.train_on", "all"))
	}
	return lo, hi, rest, nil
}

// begin renders part of a conversation and returns its length if text begins with it, else -1.
func (t *chatTemplate) begin(text string, messages []any, tools any, prompt bool) int {
	out, err := t.render(messages, tools, prompt)
	if err != nil || !strings.HasPrefix(text, out.Text) {
		return -1
	}
	return len(out.Text)
}

// marked returns the offset in text of the start or end of message i's content: where a mark
// inserted there appears, if it changes nothing else; else -1.
func (t *chatTemplate) marked(text string, messages []any, tools any, i int, begin bool) int {
	m, _ := messages[i].(ordered.Map)
	content, ok := m.Get("content").(string)
	if !ok {
		return -1
	}
	// Templates may strip white space, or keep it.
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
