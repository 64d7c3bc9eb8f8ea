package data

import "testing"

// Without add_generation_prompt, the prompt ends with what the template writes before an answer.
func TestChatPrompt(t *testing.T) {
	for what, c := range map[string]struct{ template, want string }{
		"with a prompt of its own": {chatML, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
		"Mistral's":                {"{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}", "<s>[INST] Hi [/INST]"},
		"Llama 2's":                {"{% for m in messages %}{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + m['content'].strip() + ' [/INST]' }}{% else %}{{ ' ' + m['content'].strip() + ' ' + eos_token }}{% endif %}{% endfor %}", "<s>[INST] Hi [/INST]"},
		"with names of roles":      {"{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}", "user: Hi\nassistant:"},
		"with lines for roles":     {"{% for m in messages %}{{ '<' + m['role'] + '>\n' + m['content'] + '\n' }}{% endfor %}", "<user>\nHi\n<assistant>\n"},
	} {
		got, err := Config{}.ChatPrompt(chatTokenizer(t, c.template, "<s>", "</s>"), "Hi")
		if err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", what, got, err, c.want)
		}
	}
	for what, template := range map[string]string{
		"without answers":         "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}",
		"with the last one apart": "{% for m in messages %}{{ m['content'] }}{% if loop.last %}!{% endif %}{% endfor %}",
	} {
		if got, err := (Config{}).ChatPrompt(chatTokenizer(t, template, "<s>", "</s>"), "Hi"); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
}
