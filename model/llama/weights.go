package llama

import "strings"

// aliases: files of the base model lack the prefix.
func aliases(parameter string) []string {
	if bare, ok := strings.CutPrefix(parameter, "model."); ok {
		return []string{bare}
	}
	return nil
}

// ignoreUnexpected: files may have a tied head, older ones the rotary frequencies.
func ignoreUnexpected(name string) bool {
	return name == "lm_head.weight" || strings.HasSuffix(name, ".rotary_emb.inv_freq")
}
