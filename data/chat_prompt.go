package data

import (
	"fmt"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/tokenizer"
)

// ChatPrompt renders a user's message with the generation prompt, by the chat template of c or the
// tokenizer's. The text includes the special tokens.
func (c Config) ChatPrompt(tok *tokenizer.Tokenizer, message string) (string, error) {
	t, err := c.template(tok)
	if err != nil {
		return "", err
	}
	messages := []any{chatMessage("user", message)}
	out, err := t.render(messages, nil, t.prompts)
	if err != nil {
		return "", fmt.Errorf("data: %s: %w", t.name, err)
	}
	if t.prompts {
		return out.Text, nil
	}
	return t.before(out.Text, messages)
}

// before returns the text before an answer for templates without add_generation_prompt: prompt, the
// rendered messages, if only white space follows it, as in Llama 2's and Mistral's, whose answers
// begin with that space.
func (t *chatTemplate) before(prompt string, messages []any) (string, error) {
	out, err := t.render(append(slices.Clone(messages), chatMessage("assistant", mark)), nil, false)
	if err != nil {
		return "", fmt.Errorf("data: %s: %w", t.name, err)
	}
	begin, _, found := strings.Cut(out.Text, mark)
	between, follows := strings.CutPrefix(begin, prompt)
	switch {
	case !found || !follows:
		return "", fault.Try(fmt.Errorf("data: %s has no generation prompt (add_generation_prompt)", t.name), "a template with add_generation_prompt")
	case strings.Trim(between, " ") == "":
		return prompt, nil
	}
	return strings.TrimRight(begin, " "), nil
}
