package data

import (
	"fmt"

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
	if !t.prompts {
		return "", fmt.Errorf("data: %s does not say what an answer begins with (add_generation_prompt). try: a template that does", t.name)
	}
	out, err := t.render([]any{say("user", message)}, nil, true)
	if err != nil {
		return "", fmt.Errorf("data: %s: %w", t.name, err)
	}
	return out.Text, nil
}
