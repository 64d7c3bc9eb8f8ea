package foreign

import "strings"

// stripComments replaces // and /* */ comments in JSON by spaces, which keeps lines and columns:
// DeepSpeed reads its files as Hjson. A comment starts where a token could. Other texts stay unchanged.
func stripComments(text string) string {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") || !strings.Contains(text, "/") {
		return text
	}
	out := []byte(text)
	end := "" // of the string or comment that is open
	for i := 0; i < len(out); i++ {
		rest := text[i:]
		switch {
		case end == `"` && out[i] == '\\':
			i++
		case end != "" && strings.HasPrefix(rest, end):
			if end == "*/" {
				out[i], out[i+1] = ' ', ' '
				i++
			}
			end = ""
		case end == `"`:
		case end != "":
			if out[i] != '\n' {
				out[i] = ' '
			}
		case out[i] == '"':
			end = `"`
		case i > 0 && !strings.ContainsRune(" \t\r\n,:{}[]\"", rune(text[i-1])): // inside a word
		case strings.HasPrefix(rest, "//"):
			end, out[i] = "\n", ' '
		case strings.HasPrefix(rest, "/*"):
			end, out[i], out[i+1] = "*/", ' ', ' '
			i++
		}
	}
	return string(out)
}
