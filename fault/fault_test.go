package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func flags(s Setting) string { return "--" + s.Key + " " + s.Value }

func TestTexts(t *testing.T) {
	full := errors.New("full")
	tried := Try(fmt.Errorf("no room: %w", full), "%s, or %d", Set("a.b", 1), 7)
	for _, c := range []struct {
		name        string
		err         error
		keys, flags string
		tried       bool
	}{
		{"no mistake", full, "full", "full", false},
		{"at a key", At("a.b", "is %d", 3), "a.b is 3", "a.b is 3", false},
		{"at a key, wrapped", At("a.b", "%w", full), "a.b: full", "a.b: full", false},
		{"to try", tried, "no room: full. try: a.b=1, or 7", "no room: full. try: --a.b 1, or 7", true},
		{"at a key, to try", Try(At("a", "is %w", full), "%s", Set("a", "b")), "a is full. try: a=b", "a is full. try: --a b", true},
		{"below", Try(At("a", "is %w", full), "%s", Set("a", "b")).(*Error).WithoutKey(), "is full. try: a=b", "is full. try: --a b", true},
		{"wrapped", fmt.Errorf("x.go:1: %w", tried), "x.go:1: no room: full. try: a.b=1, or 7", "x.go:1: no room: full. try: --a.b 1, or 7", true},
		{"joined", errors.Join(full, tried, At("c", "is full"), tried), "full\nno room: full. try: a.b=1, or 7\nc is full\nno room: full. try: a.b=1, or 7",
			"full\nno room: full. try: --a.b 1, or 7\nc is full\nno room: full. try: --a.b 1, or 7", true},
		{"tried inside", Try(tried, "again"), "no room: full. try: a.b=1, or 7. try: again", "no room: full. try: --a.b 1, or 7. try: again", true},
		{"a percent sign in what is wrong", Try(errors.New("100%d"), "none"), "100%d. try: none", "100%d. try: none", true},
	} {
		if got := c.err.Error(); got != c.keys {
			t.Errorf("%s: %q, want %q", c.name, got, c.keys)
		}
		if got := Text(c.err, flags); got != c.flags {
			t.Errorf("%s as flags: %q, want %q", c.name, got, c.flags)
		}
		if got := HasTry(c.err); got != c.tried {
			t.Errorf("%s: HasTry %v", c.name, got)
		}
	}
	if !errors.Is(tried, full) || errors.Is(tried, fs.ErrNotExist) {
		t.Error("the cause is not wrapped")
	}
	if at := Try(At("a.b", "is 3"), "2").(*Error); at.Key() != "a.b" || at.WithoutKey().Error() != "is 3. try: 2" {
		t.Errorf("key %q of %v", at.Key(), at.WithoutKey())
	}
}
