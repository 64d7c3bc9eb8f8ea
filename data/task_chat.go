package data

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/ordered"
	"trireme/tokenizer"
)

// chatEncoder encodes conversations rendered by a chat template. The template writes the start and
// end of a document, so no tokens are added around its text.
type chatEncoder struct {
	spanEncoder
	columns  columns
	format   string // chat or sharegpt; alpaca or prompt_completion rendered as messages
	template *chatTemplate
	roles    []string // whose messages are labels
}

var _ encoder = (*chatEncoder)(nil)

func (e *chatEncoder) fingerprint() string {
	return fmt.Sprintf("chat 2 %s %v %x %q %v", e.format, e.columns, e.template.digest, e.roles, e.spanEncoder.fingerprint())
}

func (e *chatEncoder) encode(r *record, ex *example) (bool, error) {
	messages, train, err := e.messages(r)
	if err != nil || !slices.Contains(train, true) {
		return false, err
	}
	tools := e.columns.value(r, "tools")
	out, err := e.template.full(messages, tools)
	if err != nil {
		return false, err
	}
	ex.IDs = e.tok.Append(ex.IDs, out.Text, tokenizer.Options{})
	if e.all {
		return len(ex.IDs) > 1, nil
	}
	var ranges [][2]int
	if e.template.t.HasGeneration() && slices.Equal(e.roles, []string{"assistant"}) {
		ranges, err = e.generationRanges(out.Generation, messages, train, out.Text, ex.IDs)
	} else {
		ranges, err = e.spans(out.Text, messages, train, tools, ex.IDs)
	}
	if err != nil {
		return false, err
	}
	return e.label(ex, 0, ranges, false), nil
}

// generationRanges returns the token ranges of the {% generation %} blocks to train on. Block i is
// the assistant's message i.
func (e *chatEncoder) generationRanges(blocks [][2]int, messages []any, train []bool, text string, ids []int32) ([][2]int, error) {
	var assistant []bool
	for i, m := range messages {
		if role(m) == "assistant" {
			assistant = append(assistant, train[i])
		}
	}
	if slices.Contains(assistant, false) && len(assistant) != len(blocks) {
		return nil, fmt.Errorf("%s has %d {%% generation %%} blocks for %d assistant messages, some of them not trained on", e.template.name, len(blocks), len(assistant))
	}
	var spans [][2]int
	for i, m := range blocks {
		if m[0] < m[1] && (len(assistant) != len(blocks) || assistant[i]) {
			spans = append(spans, m)
		}
	}
	return e.tokenRanges(text, ids, spans), nil
}

// spans returns the token ranges of the messages to train on, each with the special token that ends
// it.
func (e *chatEncoder) spans(text string, messages []any, train []bool, tools any, ids []int32) ([][2]int, error) {
	var spans [][2]int
	var rests []bool
	for i, m := range messages {
		if !train[i] {
			continue
		}
		lo, hi, rest, err := e.template.span(text, messages, tools, i, role(m))
		if err != nil {
			return nil, err
		}
		if n := len(spans); n > 0 {
			lo = max(lo, spans[n-1][1])
		}
		if lo < hi {
			spans, rests = append(spans, [2]int{lo, hi}), append(rests, rest)
		}
	}
	ranges := e.tokenRanges(text, ids, spans)
	for i, r := range ranges {
		ranges[i][1] = e.turnEnd(ids, r, rests[i])
	}
	return ranges, nil
}

// turnEnd is the end of a message's labels: after the special token that ends the message, before
// the white space between messages. With rest, that token comes after r.
func (e *chatEncoder) turnEnd(ids []int32, r [2]int, rest bool) int {
	blank := func(id int32) bool {
		return !e.tok.IsSpecial(id) && strings.TrimSpace(e.tok.Decode([]int32{id})) == ""
	}
	end := r[1]
	if rest {
		for end < len(ids) && blank(ids[end]) {
			end++
		}
		if end < len(ids) && e.tok.IsSpecial(ids[end]) {
			return end + 1
		}
		return r[1]
	}
	for end > r[0] && blank(ids[end-1]) {
		end--
	}
	if end > r[0] && e.tok.IsSpecial(ids[end-1]) {
		return end
	}
	return r[1]
}

func chatMessage(role, content string) ordered.Map {
	return ordered.Map{{Key: "role", Value: role}, {Key: "content", Value: content}}
}

func role(message any) string {
	m, _ := message.(ordered.Map)
	s, _ := m.Get("role").(string)
	return s
}

// messages returns a record's messages as templates take them, and which to train on.
func (e *chatEncoder) messages(r *record) (messages []any, train []bool, err error) {
	switch e.format {
	case FormatPromptCompletion:
		return e.promptCompletion(r)
	case FormatAlpaca:
		messages, err = e.alpaca(r)
	case FormatShareGPT:
		messages, err = e.shareGPT(r)
	default:
		messages, err = e.chat(r, "messages")
	}
	if err != nil {
		return nil, nil, err
	}
	train = make([]bool, len(messages))
	for i, m := range messages {
		message, _ := m.(ordered.Map)
		weight := message.Get("weight")
		train[i] = slices.Contains(e.roles, role(m)) && weight != int64(0) && weight != 0.0 && hasContent(m)
	}
	return messages, train, nil
}

// hasContent reports whether a message has text or tool calls.
func hasContent(message any) bool {
	m, _ := message.(ordered.Map)
	content, ok := m.Get("content").(string)
	return !ok || strings.TrimSpace(content) != "" || m.Get("tool_calls") != nil
}

// promptCompletion reads a prompt and its completion, each a list of messages or a text. The
// completion is trained on.
func (e *chatEncoder) promptCompletion(r *record) (messages []any, train []bool, err error) {
	parts := [2][]any{}
	for i, name := range []string{"prompt", "completion"} {
		if _, list := e.columns.value(r, name).([]any); list {
			parts[i], err = e.chat(r, name)
		} else {
			var text string
			text, err = e.columns.text(r, name)
			parts[i] = []any{chatMessage([]string{"user", "assistant"}[i], text)}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	train = make([]bool, len(parts[0]))
	for _, m := range parts[1] {
		train = append(train, hasContent(m))
	}
	return append(parts[0], parts[1]...), train, nil
}

// alpaca reads an instruction with its history, and its output. The input follows the instruction
// on a new line.
func (e *chatEncoder) alpaca(r *record) ([]any, error) {
	a, err := readAlpaca(e.columns, r)
	if err != nil {
		return nil, err
	}
	var out []any
	add := func(role, content string) { out = append(out, chatMessage(role, content)) }
	if a.system != "" {
		add("system", a.system)
	}
	for _, turn := range a.history {
		add("user", turn[0])
		add("assistant", turn[1])
	}
	if a.input != "" {
		a.instruction += "\n" + a.input
	}
	add("user", a.instruction)
	add("assistant", a.output)
	return out, nil
}

// list returns a column's list of messages, objects with two keys.
func (e *chatEncoder) list(r *record, name, first, second string) ([]ordered.Map, error) {
	key := e.columns.key(name)
	v, ok := r.fields[key]
	if !ok {
		return nil, fault.Try(fmt.Errorf("no key %q: the row has keys %s", key, r.keys()), "%s", fault.Set("data.columns."+name, "KEY"))
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is %s, expected a list of messages with %s and %s", key, typeName(v), first, second)
	}
	out := make([]ordered.Map, len(list))
	for i, v := range list {
		if out[i], ok = v.(ordered.Map); !ok {
			return nil, fmt.Errorf("message %d of %s is %s, expected an object with %s and %s", i+1, key, typeName(v), first, second)
		}
	}
	return out, nil
}

// chat reads messages with role and content; other keys are passed to the template.
func (e *chatEncoder) chat(r *record, name string) ([]any, error) {
	roleKey, contentKey := e.columns.key("role"), e.columns.key("content")
	list, err := e.list(r, name, roleKey, contentKey)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i, m := range list {
		if _, ok := m.Get(roleKey).(string); !ok {
			return nil, fmt.Errorf("message %d has %s as its %s, not a string", i+1, typeName(m.Get(roleKey)), roleKey)
		}
		if err := e.checkRole(m.Get(roleKey).(string), i+1); err != nil {
			return nil, err
		}
		content := m.Get(contentKey)
		switch content.(type) {
		case string, []any, nil:
		default:
			return nil, fmt.Errorf("message %d has %s as its %s, not a string", i+1, typeName(content), contentKey)
		}
		if roleKey != "role" || contentKey != "content" {
			m = slices.DeleteFunc(slices.Clone(m), func(one ordered.Member) bool {
				return slices.Contains([]string{"role", "content"}, one.Key) && one.Key != roleKey && one.Key != contentKey
			})
			for i := range m {
				switch m[i].Key {
				case roleKey:
					m[i].Key = "role"
				case contentKey:
					m[i].Key = "content"
				}
			}
		}
		out[i] = m
	}
	return out, nil
}

var chatRoles = []string{"user", "assistant", "system", "developer", "tool", "function", "ipython"}

// checkRole rejects a role that is neither usual, nor in roles_to_train, nor named by the chat
// template: a mistyped assistant would silently not be trained on.
func (e *chatEncoder) checkRole(role string, message int) error {
	if slices.Contains(chatRoles, role) || slices.Contains(e.roles, role) {
		return nil
	}
	if strings.Contains(e.template.source, "'"+role+"'") || strings.Contains(e.template.source, `"`+role+`"`) {
		return nil
	}
	known := slices.Concat(chatRoles, slices.DeleteFunc(slices.Clone(e.roles), func(r string) bool { return slices.Contains(chatRoles, r) }))
	return fault.Try(fmt.Errorf("message %d has the role %q, expected one of %s", message, role, strings.Join(known, ", ")), "one of them; data.format: sharegpt, whose roles are human and gpt; or a chat template that names it")
}

var shareGPTRoles = map[string]string{
	"human": "user", "user": "user",
	"gpt": "assistant", "assistant": "assistant", "model": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant", "function_call": "assistant",
	"system": "system",
	"tool":   "tool", "function": "tool", "observation": "tool",
}

// shareGPT reads messages with from and value, after the row's system text.
func (e *chatEncoder) shareGPT(r *record) ([]any, error) {
	fromKey, valueKey := e.columns.key("from"), e.columns.key("value")
	list, err := e.list(r, "conversations", fromKey, valueKey)
	if err != nil {
		return nil, err
	}
	system, err := e.columns.optional(r, "system")
	if err != nil {
		return nil, err
	}
	var out []any
	if system != "" {
		out = append(out, chatMessage("system", system))
	}
	for i, m := range list {
		from, ok := m.Get(fromKey).(string)
		if !ok {
			return nil, fmt.Errorf("message %d has %s as its %s, not a string", i+1, typeName(m.Get(fromKey)), fromKey)
		}
		role := shareGPTRoles[strings.ToLower(from)]
		if role == "" {
			return nil, fmt.Errorf("message %d is from %q, expected one of %s", i+1, from, strings.Join(slices.Sorted(maps.Keys(shareGPTRoles)), ", "))
		}
		value, ok := m.Get(valueKey).(string)
		if !ok {
			return nil, fmt.Errorf("message %d has %s as its %s, not a string", i+1, typeName(m.Get(valueKey)), valueKey)
		}
		message := chatMessage(role, value)
		if m.Has("weight") {
			message = append(message, ordered.Member{Key: "weight", Value: m.Get("weight")})
		}
		out = append(out, message)
	}
	return out, nil
}
