package hub

import (
	"strings"
	"testing"
	"time"
)

func TestProgressState(t *testing.T) {
	p := newProgress(nil, false)
	p.what, p.files, p.total, p.began = "a/b", 3, 4<<20, time.Now().Add(-2*time.Second)
	p.left.Store(2)
	p.add(1<<20, true)
	p.add(2<<20, false)
	p.add(-1<<20, false)
	if got := p.state(); !strings.HasPrefix(got, "2.0 MiB of 4.0 MiB (50%), 51") || !strings.HasSuffix(got, " KiB/s, 1 of 3 files, 4s left") {
		t.Error(got)
	}
	p.total = 0
	if got := p.state(); strings.Contains(got, "left") {
		t.Error(got)
	}
}

// TestBar draws without a terminal, which must neither fail nor hang.
func TestBar(t *testing.T) {
	for _, ok := range []bool{true, false} {
		var said strings.Builder
		p := newProgress(&said, true)
		p.start(t.Context(), "a/b", 1, 100)
		p.add(60, false)
		p.note("a note")
		p.add(-60, false)
		if ok {
			p.add(100, false)
			p.fileDone()
		}
		p.finish(ok)
		if !strings.Contains(said.String(), "a note\n") || ok != strings.Contains(said.String(), "a/b: 100 B in ") {
			t.Errorf("%v: %q", ok, said.String())
		}
	}
}
