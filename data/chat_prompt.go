package data

import (
	"fmt"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/tokenizer"
)

// ChatPrompt is the text that asks a model of conversations to answer a user's message, as the
// chat template of c, or the tokenizer's, writes it. Special tokens that the model expects are
// in the text.
func (c Config) ChatPrompt(tok *tokenizer.Tokenizer, message string) (string, error) {
	t, err := c.template(tok)
	if err != nil {
		return "", err
	}
	asked := []any{chatMessage("user", message)}
	out, err := t.render(asked, nil, t.prompts)
	if err != nil {
		return "", fmt.Errorf("data: %s: %w", t.name, err)
	}
	if t.prompts {
		return out.Text, nil
	}
	return t.before(out.Text, asked)
}

// before is what the template, which knows no add_generation_prompt, writes before the
// answer to a conversation: asked, its text, where nothing but white space lies between, as in
// Llama 2's and Mistral's, whose answers begin with that space.
func (t *chatTemplate) before(asked string, messages []any) (string, error) {
	out, err := t.render(append(slices.Clone(messages), chatMessage("assistant", mark)), nil, false)
	if err != nil {
		return "", fmt.Errorf("data: %s: %w", t.name, err)
	}
	begin, _, found := strings.Cut(out.Text, mark)
	between, follows := strings.CutPrefix(begin, asked)
	switch {
	case !found || !follows:
		return "", fault.Try(fmt.Errorf("data: %s does not say what an answer begins with (add_generation_prompt)", t.name), "a template that does")
	case strings.Trim(between, " ") == "":
		return asked, nil
	}
	return strings.TrimRight(begin, " "), nil
}
