package tokenizer

import (
	"strings"
	"testing"
	"time"
)

// A pattern that backtracks exponentially fails with an error that names file and pattern.
func TestPatternLimit(t *testing.T) {
	for _, expr := range []string{`([a-z]+)*Q`, `(x+x+)+y`} {
		tok, err := loadWith(t, map[string]string{fileJSON: tiny(t, map[string]string{
			"pre_tokenizer": `{"type": "Split", "pattern": {"Regex": "` + expr + `"}, "behavior": "Isolated", "invert": false}`,
			"decoder":       "null",
		})})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range tok.splits {
			if m, ok := s.(*matchSplit); ok {
				m.finder.(*regex).re.MatchTimeout = 50 * time.Millisecond
			}
		}
		if ids := tok.Encode("abc Q", Options{}); tok.Err() != nil || len(ids) == 0 {
			t.Fatalf("%s: %d ids, %v", expr, len(ids), tok.Err())
		}
		begin := time.Now()
		ids := tok.Append([]int32{7}, strings.Repeat("x", 82), Options{})
		if len(ids) != 1 || tok.Err() == nil || time.Since(begin) > 30*time.Second {
			t.Fatalf("%s: ids %v after %v, %v", expr, ids, time.Since(begin), tok.Err())
		}
		for _, want := range []string{fileJSON, expr, "82 bytes", "try: "} {
			if !strings.Contains(tok.Err().Error(), want) {
				t.Errorf("%q lacks %q", tok.Err(), want)
			}
		}
		first := tok.Err()
		if begin = time.Now(); len(tok.Encode("xxxx", Options{})) != 0 || tok.Err() != first || time.Since(begin) > time.Second {
			t.Errorf("%s: tried again: %v, %v", expr, time.Since(begin), tok.Err())
		}
	}
}

// Patterns of normalizer and decoder run on the file's own tokens when it is loaded.
func TestPatternLimitOfDecoder(t *testing.T) {
	t.Parallel() // waits for the limit twice
	_, err := loadWith(t, map[string]string{fileJSON: tiny(t, map[string]string{
		"added_tokens": `[{"id": 258, "content": "` + strings.Repeat("x", 60) + `"}]`,
		"decoder":      `{"type": "Replace", "pattern": {"Regex": "([a-z]+)*Q"}, "content": ""}`,
	})})
	if err == nil || !strings.Contains(err.Error(), fileJSON) || !strings.Contains(err.Error(), "backtracks for more than") {
		t.Fatal(err)
	}
}
