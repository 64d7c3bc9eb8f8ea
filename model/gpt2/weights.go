package gpt2

import "strings"

// prefix precedes parameter names in files with a head.
const prefix = "transformer."

// aliases: files of the original conversion of OpenAI's weights lack the prefix.
func aliases(parameter string) []string {
	if bare, ok := strings.CutPrefix(parameter, prefix); ok {
		return []string{bare}
	}
	return nil
}

// ignoreUnexpected: files may have a tied head, older ones the causal mask.
func ignoreUnexpected(name string) bool {
	return name == "lm_head.weight" || strings.HasSuffix(name, ".attn.bias") || strings.HasSuffix(name, ".attn.masked_bias")
}
