package cli

import (
	"strings"
	"testing"
	"time"

	"trireme/data"
)

func TestTokenizingIsShownWhereItTakesLong(t *testing.T) {
	var b strings.Builder
	p := newTokenizing(&b, "Go's source")
	p.report(data.Progress{Path: "short.txt", Done: 10, Total: 10})
	p.report(data.Progress{Path: "long.txt", Done: 0, Total: 40e6})
	if b.Len() > 0 {
		t.Errorf("wrote %q", b.String())
	}
	p.began = p.began.Add(-4 * time.Second)
	p.drawn = p.drawn.Add(-6 * time.Second)
	p.report(data.Progress{Path: "long.txt", Done: 20e6, Total: 40e6})
	if got := b.String(); !strings.HasPrefix(got, "tokenizing long.txt: 50% ") || !strings.HasSuffix(got, " MB/s\n") {
		t.Errorf("wrote %q", got)
	}
	b.Reset()
	p.width = func() int { return 30 }
	p.drawn = p.drawn.Add(-time.Second)
	p.report(data.Progress{Path: "long.txt", Done: 40e6, Total: 40e6})
	p.close()
	line, rest, _ := strings.Cut(strings.TrimPrefix(b.String(), "\r\x1b[K"), "\r\x1b[K")
	if line != "tokenizing long.txt: 100% 10." || !strings.HasPrefix(rest, "tokenized long.txt in 4") || !strings.HasSuffix(rest, " MB/s)\n") {
		t.Errorf("wrote %q, then %q", line, rest)
	}
	b.Reset()
	p.report(data.Progress{Path: "\x1b[2Jx.txt", Done: 0, Total: 40e6})
	p.drawn = p.drawn.Add(-time.Second)
	p.report(data.Progress{Path: "\x1b[2Jx.txt", Done: 20e6, Total: 40e6})
	if got := b.String(); !strings.HasPrefix(got, "\r\x1b[K"+`tokenizing \x1b[2Jx.txt: 50`) {
		t.Errorf("wrote %q", got)
	}
	p.close()
	b.Reset()
	p.close()
	if b.Len() > 0 {
		t.Errorf("wrote twice: %q", b.String())
	}
}

// Data without path, as in the built-in recipe, has a name, and its line is ended.
func TestTokenizingWithoutAPath(t *testing.T) {
	var b strings.Builder
	p := newTokenizing(&b, "Go's source")
	p.width = func() int { return 80 }
	p.report(data.Progress{Total: 40e6})
	p.drawn = p.drawn.Add(-time.Second)
	p.report(data.Progress{Done: 20e6, Total: 40e6})
	p.close()
	if got := b.String(); !strings.HasPrefix(got, "\r\x1b[Ktokenizing Go's source: 50% ") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("wrote %q", got)
	}
}
