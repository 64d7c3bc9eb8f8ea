package trace

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecorder(t *testing.T) {
	r := New(0)
	r.SetStep(7)
	r.SetMicro(2)
	m := r.Begin(Span{Stream: Comm, Kind: AllGather, Unit: "layers.3", Axis: "shard", Op: "all_gather", Seq: 9, Bytes: 4096})
	m.Ready = m.Start + 5
	r.End(m)
	want := m.Span
	got := r.Steps(7, 7)
	if len(got) != 1 || got[0].End < m.Start || got[0].Step != 7 || got[0].Micro != 2 {
		t.Fatalf("spans %+v", got)
	}
	want.End = got[0].End
	if d := cmp.Diff(want, got[0]); d != "" {
		t.Error(d)
	}
	if s := r.Steps(8, 9); len(s) != 0 {
		t.Errorf("spans of other steps: %+v", s)
	}
	r.Add(Span{Kind: Forward, Start: 1, End: 2})
	if s, _, _ := r.Since(Cursor{}); len(s) != 2 || s[1] != (Span{Kind: Forward, Start: 1, End: 2}) {
		t.Errorf("a span without the words of a collective: %+v", s)
	}
}

func TestNilRecorder(t *testing.T) {
	var r *Recorder
	r.SetStep(1)
	r.SetMicro(1)
	r.Reserve(10)
	r.End(r.Begin(Span{Kind: Forward}))
	if s, _, lost := r.Since(Cursor{}); s != nil || lost != 0 || r.Steps(0, 9) != nil {
		t.Error("a nil Recorder has spans")
	}
}

func TestSince(t *testing.T) {
	r := New(0)
	var c Cursor
	add := func(n int) {
		for i := range n {
			r.Add(Span{Start: int64(i)})
		}
	}
	read := func(spans int, lost int64) {
		t.Helper()
		s, next, l := r.Since(c)
		if c = next; len(s) != spans || l != lost {
			t.Fatalf("%d spans, %d lost; want %d, %d", len(s), l, spans, lost)
		}
	}
	read(0, 0)
	add(3)
	read(3, 0)
	read(0, 0)
	add(DefaultSpans + 5)
	read(DefaultSpans, 5)
	r.Reserve(DefaultSpans + 1)
	add(DefaultSpans + 5)
	read(DefaultSpans+5, 0)
}

// TestConcurrent writes from several goroutines while others read; every span read is one that was written.
func TestConcurrent(t *testing.T) {
	r := New(0)
	var writers, readers sync.WaitGroup
	for g := range 4 {
		writers.Go(func() {
			for i := range 20000 {
				v := int64(g*1_000_000 + i)
				r.Add(Span{Start: v, End: 2 * v, Ready: 3 * v, Seq: uint64(v), Bytes: 5 * v, Unit: fmt.Sprint(v % 50), Stream: Stream(g)})
			}
		})
	}
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			var c Cursor
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true
				default:
				}
				var spans []Span
				spans, c, _ = r.Since(c)
				for _, s := range spans {
					v := s.Start
					if s.End != 2*v || s.Ready != 3*v || s.Seq != uint64(v) || s.Bytes != 5*v || s.Unit != fmt.Sprint(v%50) || int64(s.Stream) != v/1_000_000 {
						t.Errorf("torn span %+v", s)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
}

func TestManyNames(t *testing.T) {
	r := New(0)
	for i := range maxName + 10 {
		r.Add(Span{Unit: fmt.Sprint("unit ", i)})
	}
	s, _, _ := r.Since(Cursor{})
	if got := s[maxName-1].Unit; got != fmt.Sprint("unit ", maxName-1) {
		t.Errorf("the last name that is kept: %q", got)
	}
	if got := s[maxName+5].Unit; got != "" {
		t.Errorf("one too many: %q", got)
	}
}

func TestAllocations(t *testing.T) {
	r := New(0)
	s := Span{Kind: Forward, Unit: "layers.1", Axis: "shard"}
	if n := testing.AllocsPerRun(100, func() { r.End(r.Begin(s)) }); n > 0 {
		t.Errorf("%v allocations a span", n)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for k := range numKinds {
		if n := k.String(); n == "" || n == "unknown" || seen[n] {
			t.Errorf("kind %d is %q", k, n)
		} else {
			seen[n] = true
		}
	}
	if numKinds.String() != "unknown" || numStreams.String() != "unknown" {
		t.Error("values out of range have names")
	}
}

func BenchmarkSpan(b *testing.B) {
	r := New(0)
	b.Run("unit", func(b *testing.B) {
		for b.Loop() {
			r.End(r.Begin(Span{Kind: Forward, Unit: "layers.12"}))
		}
	})
	b.Run("collective", func(b *testing.B) {
		for b.Loop() {
			r.End(r.Begin(Span{Stream: Comm, Kind: AllGather, Unit: "layers.12", Axis: "shard", Seq: 12, Bytes: 1 << 20}))
		}
	})
	b.Run("nil", func(b *testing.B) {
		var r *Recorder
		for b.Loop() {
			r.End(r.Begin(Span{Kind: Forward, Unit: "layers.12"}))
		}
	})
}
