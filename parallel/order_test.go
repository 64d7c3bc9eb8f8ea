package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/device"
	"trireme/nn"
	"trireme/parallel"
	"trireme/tensor"
)

var oneAhead = parallel.Default().AllGather()

// recorder is a Group that records operations at their start and counts volume: an all-gather or
// reduce-scatter moves the buffer once, an all-reduce twice.
type recorder struct {
	collective.Group
	axis string
	log  *journal
	rank int
	fail func(rank int, axis, kind, tag string) error // nil: none
}

type journal struct {
	mu     sync.Mutex
	begun  []string
	volume map[string]int // bytes by kind of collective and axis
	more   chan struct{}  // closed at the next entry
}

func newJournal() *journal { return &journal{volume: map[string]int{}, more: make(chan struct{})} }

func (j *journal) note(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun = append(j.begun, what)
	close(j.more)
	j.more = make(chan struct{})
}

// await waits until what is recorded n times; false if that does not happen.
func (j *journal) await(what string, n int) bool {
	late := time.After(5 * time.Second)
	for {
		j.mu.Lock()
		count, more := 0, j.more
		for _, b := range j.begun {
			if b == what {
				count++
			}
		}
		j.mu.Unlock()
		if count >= n {
			return true
		}
		select {
		case <-more:
		case <-late:
			return false
		}
	}
}

func (g *recorder) begin(kind, tag string, bytes int, op func() error) error {
	g.log.mu.Lock()
	g.log.volume[kind+" "+g.axis] += bytes
	g.log.mu.Unlock()
	g.log.note(kind + " " + tag)
	if g.fail != nil {
		if err := g.fail(g.rank, g.axis, kind, tag); err != nil {
			g.Group.Abort(err)
			return err
		}
	}
	return op()
}

func (g *recorder) AllGather(ctx context.Context, dst, src *tensor.Tensor, tag string) error {
	return g.begin("gather", tag, dst.Bytes(), func() error { return g.Group.AllGather(ctx, dst, src, tag) })
}

func (g *recorder) ReduceScatter(ctx context.Context, dst, src *tensor.Tensor, o collective.ReduceOptions, tag string) error {
	return g.begin("reduce", tag, src.Bytes(), func() error { return g.Group.ReduceScatter(ctx, dst, src, o, tag) })
}

func (g *recorder) AllReduce(ctx context.Context, t *tensor.Tensor, op collective.Op, tag string) error {
	bytes := 2 * t.Bytes()
	if tag == "step" {
		bytes = 0 // a few numbers
	}
	return g.begin("all-reduce", tag, bytes, func() error { return g.Group.AllReduce(ctx, t, op, tag) })
}

// journals makes a setup record, one journal per rank.
func (d *setup) journals() []*journal {
	js := make([]*journal, d.world)
	for i := range js {
		js[i] = newJournal()
	}
	d.group = func(rank int, axis string, g collective.Group) collective.Group {
		return &recorder{Group: g, axis: axis, log: js[rank], rank: rank}
	}
	return js
}

// flatBytes returns the padded bytes of each unit of c in a world.
func (c toy) flatBytes(t *testing.T, world int) (sizes []int, total int) {
	b := openDevice(t)
	defer b.Close()
	for _, u := range c.make(b).units {
		n := padded(u.Params, world) * 4
		sizes, total = append(sizes, n), total+n
	}
	return sizes, total
}

// padded returns the padded element count of sharded parameters.
func padded(ps []*nn.Param, world int) (n int) {
	up := func(to int) { n = (n + to - 1) / to * to }
	var before *nn.Param
	for _, p := range ps {
		if p.FusedAfter == nil || p.FusedAfter != before {
			up(tensor.SumBlock)
		}
		n, before = n+p.Shape.Elems(), p
	}
	up(world * tensor.SumBlock)
	return n
}

// TestOverlap: while a unit computes, the next one's all-gather has started and, in backward, also
// the previous unit's reduction. The unit waits for these records.
func TestOverlap(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := toy{V: 13, D: 8, F: 9, layers: 4, rows: 5}
	names := []string{"embed", "layer1", "layer2", "layer3", "layer4", "last"}
	d := setup{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, gather: oneAhead}
	js := d.journals()
	d.in = func(rank, unit int, back bool) {
		expect := func(what string, n int) {
			if !js[rank].await(what, n) {
				t.Errorf("rank %d: while %s computes (backward %t), %s has not started", rank, names[unit], back, what)
			}
		}
		switch {
		case !back && unit+1 < len(names):
			expect("gather "+names[unit+1], 1)
		case back:
			if unit > 0 {
				expect("gather "+names[unit-1], 2)
			}
			if unit+1 < len(names) {
				expect("reduce "+names[unit+1], 1)
			}
		}
		js[rank].note(fmt.Sprintf("compute %s %t", names[unit], back))
	}
	d.after = func(rank int, b device.Device, e *parallel.Engine, _ tensor.Usage) {
		sizes, _ := c.flatBytes(t, d.world)
		use := b.Meter().Read()
		flight := 0
		for i := range sizes[1:] {
			flight = max(flight, sizes[i]+sizes[i+1])
		}
		if got := use.Peak[tensor.Gathered]; got > int64(flight) {
			t.Errorf("rank %d: peak of %d unsharded bytes, two units have %d", rank, got, flight)
		}
		if got, most := use.Peak[tensor.Buckets], int64(3*slices.Max(sizes)); got > most {
			t.Errorf("rank %d: peak of %d bucket bytes, three buckets have up to %d", rank, got, most)
		}
	}
	if _, errs := c.train(t, d); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	// No unit is all-gathered more than one ahead, nor after its reduction.
	for rank, j := range js {
		seen := map[string]int{}
		for i, what := range j.begun {
			seen[what]++
			if name, ok := strings.CutPrefix(what, "gather "); ok && seen[what] == 1 {
				if k := slices.Index(names, name); k >= 2 && !slices.Contains(j.begun[:i], fmt.Sprintf("compute %s false", names[k-2])) {
					t.Errorf("rank %d: %s is gathered before %s ran: %v", rank, name, names[k-2], j.begun[:i+1])
				}
			}
		}
	}
}

// TestBucketLimit: tied weights keep the embedding's bucket open for all of backward; there
// are up to three buckets.
func TestBucketLimit(t *testing.T) {
	for _, tied := range []bool{false, true} {
		c := toy{V: 16, D: 16, F: 16, layers: 6, rows: 3, tied: tied}
		sizes, _ := c.flatBytes(t, 2)
		d := setup{world: 2, accumulation: 2, replicas: 1, strategy: "full_shard", steps: 2, poison: -1, gather: oneAhead}
		d.after = func(rank int, b device.Device, e *parallel.Engine, _ tensor.Usage) {
			if got, most := b.Meter().Read().Peak[tensor.Buckets], int64(3*slices.Max(sizes)); got > most {
				t.Errorf("tied %t, rank %d: peak of %d bucket bytes, three buckets have up to %d", tied, rank, got, most)
			}
		}
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
	}
}

// TestVolume: a step communicates 2P, with P the bytes of all parameters; with sharded parameters 3P less
// the last unit, which stays unsharded for backward.
func TestVolume(t *testing.T) {
	c := toy{V: 29, D: 16, F: 21, layers: 3, rows: 4}
	sizes, P := c.flatBytes(t, 4)
	last := sizes[len(sizes)-1]
	for _, v := range []struct {
		strategy           string
		replicas, micros   int
		local              bool
		gather, reduce, ar int // bytes over the shard or world axis
		across             int // over the replicate axis
	}{
		{strategy: "no_shard", replicas: 1, micros: 1, gather: P, reduce: P},
		{strategy: "zero_1", replicas: 1, micros: 1, gather: P, reduce: P},
		{strategy: "shard_grad_op", replicas: 1, micros: 1, gather: P, reduce: P},
		{strategy: "full_shard", replicas: 1, micros: 1, gather: 2*P - last, reduce: P},
		{strategy: "hybrid_shard", replicas: 2, micros: 1, local: true, gather: 2*P - last, reduce: P, across: 2 * P / 2},
		// World-invariant: all ranks reduce, and half a shard is all-gathered.
		{strategy: "hybrid_shard", replicas: 2, micros: 1, gather: 2*P - last, reduce: P, across: P / 2},
		// Accumulation: sharded gradients are reduced each time; unsharded ones once, or each time if
		// world-invariant.
		{strategy: "no_shard", replicas: 1, micros: 3, local: true, gather: P, reduce: P},
		{strategy: "zero_1", replicas: 1, micros: 3, local: true, gather: P, reduce: P},
		{strategy: "no_shard", replicas: 1, micros: 3, gather: P, reduce: 3 * P},
		{strategy: "zero_1", replicas: 1, micros: 3, gather: P, reduce: 3 * P},
		{strategy: "shard_grad_op", replicas: 1, micros: 3, gather: P, reduce: 3 * P},
		{strategy: "full_shard", replicas: 1, micros: 3, gather: 3 * (2*P - last), reduce: 3 * P},
	} {
		d := setup{world: 4, accumulation: v.micros, replicas: v.replicas, strategy: v.strategy, local: v.local, steps: 1, poison: -1}
		js := d.journals()
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
		for rank, j := range js {
			n := j.volume
			gather, reduce := n["gather world"]+n["gather shard"], n["reduce world"]+n["reduce shard"]
			across := n["all-reduce replicate"] + n["gather replicate"]
			if total := gather + reduce + across + n["all-reduce world"] + n["all-reduce shard"] + n["reduce replicate"]; gather != v.gather || reduce != v.reduce || across != v.across || total != v.gather+v.reduce+v.across {
				t.Errorf("%v: rank %d moves %v; want of %d bytes: gather %d, reduce %d, across replicas %d", d, rank, n, P, v.gather, v.reduce, v.across)
			}
		}
	}
}

// TestSegmentGathers: layers of a segment are all-gathered for their recomputation, each while the
// previous one computes; the last one stays for backward, and no all-gather is unused.
func TestSegmentGathers(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 6, rows: 5, segments: 3}
	d := setup{world: 2, accumulation: 2, replicas: 1, strategy: "full_shard", steps: 2, poison: -1, evaluate: true, gather: oneAhead}
	js := d.journals()
	if _, errs := c.train(t, d); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	forward := []string{"embed", "layer1", "layer2", "layer3", "layer4", "layer5", "layer6", "last"}
	back := []string{"layer6", "layer5", "layer3", "layer4", "layer3", "layer1", "layer2", "layer1", "embed"}
	step := slices.Concat(forward, forward, forward, back, forward, back) // two evaluation passes come first
	want := slices.Concat(step, step)
	for rank, j := range js {
		var got []string
		for _, what := range j.begun {
			if name, ok := strings.CutPrefix(what, "gather "); ok {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("rank %d gathers %v, want %v", rank, got, want)
		}
	}
}

// TestVotes: every rank sees each vote once, and no other vote with it.
func TestVotes(t *testing.T) {
	collectivetest.Ranks(t, 3, func(w collective.World) error {
		b := openDevice(t)
		defer b.Close()
		mesh, err := parallel.NewMesh(w, parallel.MeshShape{parallel.Shard: 3}, 0)
		if err != nil {
			return err
		}
		e, err := parallel.New(b, mesh, toy{V: 5, D: 4, F: 3, layers: 1}.make(b).units, parallel.Options{Optim: adam})
		if err != nil {
			return err
		}
		defer e.Close()
		for step, want := range []int64{0, 2, 0} {
			if step == 1 && w.Rank() != 1 {
				e.Vote(parallel.VoteLowMemory)
			}
			if err := e.Guard(func() {
				e.Begin(context.Background(), 1, false)
				e.Finish(1, 0, nil)
			}); err != nil {
				return err
			}
			r := e.Result()
			if stop, relief := r.Votes(parallel.VoteStop), r.Votes(parallel.VoteLowMemory); stop != 0 || relief != want {
				t.Errorf("rank %d, step %d: %d votes to stop and %d for low memory, want 0 and %d", w.Rank(), step, stop, relief, want)
			}
		}
		return nil
	})
}

// TestFailureNamesTheUnit: a collective that fails or panics on one rank is an error on every rank that
// names the unit; nothing hangs or keeps running.
func TestFailureNamesTheUnit(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := toy{V: 13, D: 8, F: 9, layers: 3, rows: 5}
	broken := errors.New("the wire is cut")
	for _, strategy := range strategies {
		for _, kind := range []string{"gather", "reduce"} {
			for _, panics := range []bool{false, true} {
				d := setup{world: 3, accumulation: 2, replicas: 1, strategy: strategy, steps: 2, poison: -1}
				js := d.journals()
				wrap := d.group
				d.group = func(rank int, axis string, g collective.Group) collective.Group {
					x := wrap(rank, axis, g).(*recorder)
					x.fail = func(rank int, axis, k, tag string) error {
						if rank != 1 || k != kind || tag != "layer2" {
							return nil
						}
						if panics {
							panic("a broken contract")
						}
						return broken
					}
					return x
				}
				began := time.Now()
				_, errs := c.train(t, d)
				for rank, err := range errs {
					switch {
					case err == nil:
						t.Errorf("%v, %s: rank %d has no error: %v", d, kind, rank, js[rank].begun)
					case !strings.Contains(err.Error(), "layer") && !strings.Contains(err.Error(), "last") && !strings.Contains(err.Error(), "embed"):
						t.Errorf("%v, %s: rank %d: %q names no unit", d, kind, rank, err)
					case rank == 1 && !panics && !errors.Is(err, broken):
						t.Errorf("%v, %s: rank 1: %q lacks the cause", d, kind, err)
					}
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("%v, %s: ended after %v", d, kind, took)
				}
			}
		}
	}
}

// TestFailureOutsideUnits: the error of a step's last all-reduce names the collective and no unit.
func TestFailureOutsideUnits(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := toy{V: 13, D: 8, F: 9, layers: 1, rows: 5}
	d := setup{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1}
	d.journals()
	wrap := d.group
	d.group = func(rank int, axis string, g collective.Group) collective.Group {
		x := wrap(rank, axis, g).(*recorder)
		x.fail = func(rank int, axis, k, tag string) error {
			if rank == 1 && tag == "step" {
				return errors.New("the wire is cut")
			}
			return nil
		}
		return x
	}
	_, errs := c.train(t, d)
	if errs[1] == nil || errs[1].Error() != "the wire is cut" {
		t.Errorf("rank 1: %v", errs[1])
	}
	if errs[0] == nil || strings.Contains(errs[0].Error(), "unit ") || !strings.Contains(errs[0].Error(), "(step)") {
		t.Errorf("rank 0: %v", errs[0])
	}
}

// TestPanicNamesTheUnit: a panic in a model's code, with communication pending, is an error of that rank
// that names the unit; the other ranks end too.
func TestPanicNamesTheUnit(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := toy{V: 13, D: 8, F: 9, layers: 3, rows: 5}
	for _, strategy := range strategies {
		for _, back := range []bool{false, true} {
			d := setup{world: 3, accumulation: 2, replicas: 1, strategy: strategy, steps: 2, poison: -1}
			d.in = func(rank, unit int, b bool) {
				if rank == 2 && unit == 2 && b == back {
					panic("the model is wrong")
				}
			}
			_, errs := c.train(t, d)
			var p *parallel.Panic
			if !errors.As(errs[2], &p) || p.Unit != "layer2" || !strings.Contains(p.Error(), "the model is wrong") {
				t.Errorf("%v, backward %t: rank 2 ends with %v", d, back, errs[2])
			}
			for rank, err := range errs[:2] {
				if err == nil || !strings.Contains(err.Error(), "the model is wrong") {
					t.Errorf("%v, backward %t: rank %d ends with %v", d, back, rank, err)
				}
			}
		}
	}
}
