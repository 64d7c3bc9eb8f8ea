package flight

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func identity(rank, size int) Identity {
	return Identity{Rank: rank, Size: size, PID: 4121, Host: "n1", Run: "job", Restart: 2}
}

// A state in a file reads as it was recorded, also while the rank writes.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", FileName(5))
	r := New(identity(5, 8))
	if err := r.Attach(path); err != nil {
		t.Fatal(err)
	}
	g := r.Group(77, "shard", []int{1, 3, 5, 7})
	if again := r.Group(77, "shard", []int{1, 3, 5, 7}); again != g {
		t.Errorf("the same group is %v, then %v", g, again)
	}
	for i := range 100 {
		e := g.Begin(Op{Seq: uint64(i), Kind: "reduce_scatter", DType: "bfloat16", Count: 4096, Tag: "layer 17", Peer: -1})
		if i < 99 {
			e.End()
		}
	}
	outer := r.Enter(Evaluating, "")
	r.Enter(Loading, "shard-0042:7\x1b[2J")
	r.Beat()
	r.Step(12)
	for name, read := range map[string]func() (*State, error){
		"file":     func() (*State, error) { return ReadFile(path) },
		"snapshot": func() (*State, error) { return Parse(r.Snapshot(1000)) },
		"short":    func() (*State, error) { return Parse(r.Snapshot(3)) },
	} {
		s, err := read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Identity != identity(5, 8) || s.Ended || s.Step != 12 {
			t.Errorf("%s: %+v", name, s)
		}
		if len(s.Groups) != 1 || s.Groups[0] != (GroupState{Key: 77, Name: "shard", First: 1, Stride: 2, Size: 4, Started: 100, Finished: 99}) {
			t.Errorf("%s: groups %+v", name, s.Groups)
		}
		want := ringCap
		if name == "short" {
			want = 3
		}
		last := s.Ops[len(s.Ops)-1]
		if len(s.Ops) != want || last.Seq != 99 || !last.Running || last.String() != "reduce_scatter #99 of 4096 bfloat16 (layer 17)" || s.Ops[len(s.Ops)-2].Running {
			t.Errorf("%s: %d operations, last %+v", name, len(s.Ops), last)
		}
		if got := s.Activity(); !strings.HasPrefix(got, "is in data.Next reading shard-0042:7?[2J, evaluating (") {
			t.Errorf("%s: %s", name, got)
		}
	}
	r.Leave(outer)
	r.Close(76)
	s, err := ReadFile(path)
	if err != nil || !s.Ended || s.Code != 76 || len(s.Doing) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("files %v", left)
	}
}

// Units replace each other, and the activity around them ends them.
func TestUnits(t *testing.T) {
	r := New(identity(0, 1))
	outer := r.Enter(Computing, "")
	r.Unit(Forward, "layer 0")
	r.Unit(Forward, "layer 1")
	w := r.Enter(Waiting, "")
	r.Leave(w)
	r.Unit(Backward, "layer 1")
	s, err := Parse(r.Snapshot(0))
	if err != nil || len(s.Doing) != 2 || s.doing().Activity != Backward || s.doing().Detail != "layer 1" {
		t.Errorf("%+v, %v", s, err)
	}
	r.Leave(outer)
	for range 10 { // deeper than the record
		r.Enter(Evaluating, "")
	}
	if s, err = Parse(r.Snapshot(0)); err != nil || len(s.Doing) != maxDepth {
		t.Errorf("%+v, %v", s, err)
	}
	r.Leave(0)
	if s, err = Parse(r.Snapshot(0)); err != nil || len(s.Doing) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A nil recorder records nothing, and recording allocates nothing.
func TestCost(t *testing.T) {
	var none *Recorder
	none.Leave(none.Enter(Saving, ""))
	none.Unit(Forward, "x")
	none.Group(1, "g", []int{0}).Begin(Op{}).End()
	none.Beat()
	none.Step(1)
	none.Close(0)
	if none.Snapshot(1) != nil {
		t.Error("a nil recorder has a state")
	}
	r := New(identity(0, 2))
	g := r.Group(1, "all", []int{0, 1})
	if n := testing.AllocsPerRun(100, func() {
		r.Unit(Forward, "layer 3")
		e := g.Begin(Op{Kind: "all_gather", DType: "float32", Tag: "layer 3", Peer: -1})
		r.Leave(r.Enter(Waiting, ""))
		e.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := New(identity(0, 2))
	g := r.Group(1, "all", []int{0, 1})
	for b.Loop() {
		g.Begin(Op{Kind: "all_gather", DType: "float32", Tag: "model.layers.3", Peer: -1}).End()
	}
}

// Snapshots are whole while several goroutines record.
func TestConcurrent(t *testing.T) {
	r := New(identity(0, 2))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 3 {
		g := r.Group(uint64(i+1), "g", []int{0, 1})
		all.Go(func() {
			for n := uint64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
					g.Begin(Op{Seq: n, Kind: "all_gather", Tag: strings.Repeat("x", int(n%40)), Count: int64(n % 40), Peer: -1}).End()
				}
			}
		})
	}
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.Leave(r.Enter(Loading, "a"))
			}
		}
	})
	for range 2000 {
		s, err := Parse(r.Snapshot(16))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range s.Ops {
			if int64(len(o.Tag)) != o.Count {
				t.Fatalf("a mixed entry: %+v", o)
			}
		}
		if len(s.Doing) > 1 {
			t.Fatalf("%+v", s.Doing)
		}
	}
	close(stop)
	all.Wait()
}

func FuzzParse(f *testing.F) {
	r := New(identity(1, 4))
	g := r.Group(9, "all", []int{0, 1, 2, 3})
	g.Begin(Op{Seq: 3, Kind: "send", DType: "float32", Count: 1, Tag: "t", Peer: 2})
	g.Begin(Op{Seq: 1, Kind: "all_gather", Peer: -1}).End()
	r.Enter(Saving, "step-4")
	f.Add(r.Snapshot(8))
	f.Add(r.words().bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err != nil {
			return
		}
		for _, r := range s.Activity() + s.LastOp() + s.Name() {
			if r < ' ' || r == 0x7f {
				t.Errorf("control character %q", r)
			}
		}
		states := make([]Rank, min(s.Size, 16))
		for i := range states {
			states[i].State = s
		}
		Diagnose(states, time.Second)
	})
}

// A rank of one world in a test of Diagnose.
type actor struct {
	r   *Recorder
	all Group
}

func actors(n int) (as []actor, states func(at time.Duration) []Rank) {
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i
	}
	for i := range n {
		r := New(Identity{Rank: i, Size: n, PID: 100 + i, Host: "n1"})
		as = append(as, actor{r, r.Group(1, "all", ranks)})
	}
	return as, func(at time.Duration) (ks []Rank) {
		for _, a := range as {
			s, err := Parse(a.r.Snapshot(8))
			if err != nil {
				panic(err)
			}
			s.Alive = s.Alive.Add(at) // as if nothing happened for at
			ks = append(ks, Rank{State: s})
		}
		return ks
	}
}

func (a actor) wait(seq uint64, kind, tag string) Entry {
	e := a.all.Begin(Op{Seq: seq, Kind: kind, DType: "float32", Count: 4096, Tag: tag, Peer: -1})
	a.r.Enter(Waiting, "")
	return e
}

func TestDiagnose(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     func(as []actor)
		change  func(ks []Rank)
		at      time.Duration
		verdict Verdict
		rank    int
		text    []string
	}{
		{"progress", func(as []actor) { as[0].r.Unit(Forward, "layer 0") }, nil, time.Hour, Progress, -1, nil},
		{"late", func(as []actor) {
			as[1].r.Enter(Loading, "rows.jsonl:9")
			as[0].wait(0, "all_gather", "layer 3")
			as[2].wait(0, "all_gather", "layer 3")
		}, nil, 10 * time.Second, Late, 1, []string{"waiting 10 s for rank 1 (n1, pid 101) in all_gather #0 of 4096 float32 (layer 3)", "2 others wait", "rank 1 is in data.Next reading rows.jsonl:9 (10 s)"}},
		{"hung", func(as []actor) {
			as[1].r.Enter(Loading, "rows.jsonl:9")
			as[0].wait(0, "all_gather", "layer 3")
			as[2].wait(0, "all_gather", "layer 3")
		}, nil, 61 * time.Second, Hung, 1, []string{"hang: rank 1 (n1, pid 101) did not reach all_gather #0 of 4096 float32 (layer 3) in group all within 60 s; 2 others wait. rank 1 is in data.Next reading rows.jsonl:9 (61 s)"}},
		{"slow but advancing", func(as []actor) {
			as[1].r.Enter(Loading, "rows.jsonl:9")
			as[0].wait(0, "all_gather", "layer 3")
			as[2].wait(0, "all_gather", "layer 3")
		}, func(ks []Rank) { ks[1].Progress = ks[1].Alive.Add(-time.Second) }, 300 * time.Second, Late, 1, []string{"waiting 5m0s for rank 1"}},
		{"computes for long", func(as []actor) {
			as[1].r.Unit(Backward, "head")
			as[0].wait(0, "all_gather", "layer 3")
		}, func(ks []Rank) { ks[1].Busy = ks[1].Alive }, 100 * time.Second, Late, 1, []string{"is computing backward of head"}},
		{"computes for too long", func(as []actor) {
			as[1].r.Unit(Backward, "head")
			as[0].wait(0, "all_gather", "layer 3")
		}, func(ks []Rank) { ks[1].Busy = ks[1].Alive }, 601 * time.Second, Hung, 1, []string{"is computing backward of head"}},
		{"sleeps in compute", func(as []actor) {
			as[1].r.Unit(Backward, "head")
			as[0].wait(0, "all_gather", "layer 3")
		}, nil, 61 * time.Second, Hung, 1, []string{"is computing backward of head"}},
		{"saves alone", func(as []actor) {
			as[1].r.Enter(Saving, "step-4")
			for _, i := range []int{0, 2} {
				as[i].r.Group(2, "agreement", []int{0, 1, 2}).Begin(Op{Kind: StoreGather, Tag: "agreement", Peer: -1})
				as[i].r.Enter(Waiting, "")
			}
		}, nil, time.Hour, Late, 1, []string{"saving a checkpoint step-4"}},
		{"in the background", func(as []actor) {
			as[0].all.Begin(Op{Kind: "all_gather", Peer: -1})
			as[0].r.Unit(Forward, "layer 0")
		}, nil, time.Hour, Progress, -1, nil},
		{"two groups", func(as []actor) {
			as[0].r.Group(2, "a", []int{0, 1}).Begin(Op{Kind: "all_reduce", Tag: "x", Peer: -1})
			as[1].r.Group(3, "b", []int{0, 1}).Begin(Op{Kind: "barrier", Tag: "y", Peer: -1})
			as[2].wait(0, "all_reduce", "step")
		}, nil, 2 * time.Second, Deadlock, 0, []string{"hang: rank 0 (n1, pid 100) waits in all_reduce #0 (x) in group a (2.0 s), but has not reached barrier #0 (y) in group b, in which rank 1 waits for it: they wait for each other"}},
		{"left the order", func(as []actor) {
			as[0].wait(7, "all_gather", "layer 3")
			as[2].wait(7, "all_gather", "layer 3")
			as[1].r.Group(2, "agreement", []int{0, 1, 2}).Begin(Op{Kind: StoreGather, Tag: "agreement", Peer: -1})
		}, nil, 2 * time.Second, Deadlock, 1, []string{`rank 1 (n1, pid 101) waits for all ranks at "agreement" (2.0 s), but has not reached all_gather #7`, "in which ranks 0 and 2 wait for it"}},
		{"stopped", func(as []actor) {
			as[0].wait(0, "all_gather", "layer 3")
		}, func(ks []Rank) { ks[1].Gone = "is stopped (signal 19)" }, time.Second, Lost, 1, []string{"rank 1 (n1, pid 101) is stopped (signal 19); 1 other waits in all_gather #0"}},
		{"unknown", func(as []actor) {
			as[0].wait(0, "all_gather", "layer 3")
		}, func(ks []Rank) { ks[1].State, ks[2].State = nil, nil }, 61 * time.Second, Hung, 1, []string{"rank 1 (and 1 more) did not reach"}},
		{"stuck", func(as []actor) {
			for _, a := range as {
				a.wait(0, "all_gather", "layer 3")
			}
		}, nil, 61 * time.Second, Stuck, 2, []string{"all ranks reached all_gather #0", "ranks 0, 1 and 2"}},
		{"receive without send", func(as []actor) {
			as[0].all.Begin(Op{Kind: "recv", Tag: "t", Peer: 2})
			as[2].r.Enter(Saving, "")
		}, nil, 61 * time.Second, Hung, 2, []string{"recv #0 (t)"}},
		{"chain", func(as []actor) {
			as[0].r.Group(2, "a", []int{0, 1}).Begin(Op{Kind: "all_reduce", Tag: "x", Peer: -1})
			as[1].r.Group(3, "b", []int{1, 2}).Begin(Op{Kind: "barrier", Tag: "y", Peer: -1})
			as[2].r.Enter(Tokenizing, "f.txt")
		}, nil, 61 * time.Second, Hung, 2, []string{"rank 2 (n1, pid 102) did not reach barrier #0 (y) in group b", "2 others wait", "is tokenizing f.txt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			as, states := actors(3)
			c.set(as)
			ks := states(c.at)
			if c.change != nil {
				c.change(ks)
			}
			p := Diagnose(ks, time.Minute)
			if p.Verdict != c.verdict || p.Rank != c.rank {
				t.Errorf("%v of rank %d: %s", p.Verdict, p.Rank, p.Text)
			}
			for _, want := range c.text {
				if !strings.Contains(p.Text, want) {
					t.Errorf("%q has no %q", p.Text, want)
				}
			}
		})
	}
}
