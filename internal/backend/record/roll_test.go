package record

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trireme/internal/backend/naive"
	"trireme/tensor"
)

// plain is a program's operations without versions and tags, with buffers numbered by first use.
func plain(ops []Op) string {
	var out strings.Builder
	numbers := map[int]int{}
	for i := range ops {
		op := ops[i].withViews(func(_ int, v *View) {
			if _, ok := numbers[v.Buffer]; !ok {
				numbers[v.Buffer] = len(numbers)
			}
			v.Buffer = numbers[v.Buffer]
		})
		op.Args = slices.DeleteFunc(op.Args, func(a Arg) bool { return a.Name == tag })
		op.write(&out, (*View).write)
	}
	return out.String()
}

// unroll is r's operations as executed. Each temporary of a stack is a buffer.
func unroll(r *Rolled) (ops []Op) {
	count := 0
	fresh := func() int { count++; return count }
	type element struct{ buf, index int }
	names := map[element]int{}
	// name is the buffer at an element of r's buffer, and the element where it starts.
	at := func(buf, start int) (element, int) {
		index, size := 0, 0
		if n := r.Stacked[buf]; n > 0 {
			size = r.Buffers[buf].elems() / n
			index = start / size
		}
		x := element{buf, index}
		if _, ok := names[x]; !ok {
			names[x] = fresh()
		}
		return x, index * size
	}
	for _, n := range r.Nodes {
		if n.Op != nil {
			ops = append(ops, n.Op.withViews(func(_ int, v *View) {
				x, start := at(v.Buffer, v.Offset)
				v.move(names[x], -start)
			}))
			continue
		}
		l := n.Loop
		now := make([]int, len(l.Locals)) // Temp and Carry
		for k, x := range l.Locals {
			if now[k] = fresh(); x.Kind == Carry && x.Init.Buffer >= 0 {
				e, _ := at(x.Init.Buffer, x.Init.Start)
				now[k] = names[e]
			}
		}
		for i := range l.Count {
			for k := range l.Locals {
				if l.Locals[k].Kind == Temp {
					now[k] = fresh()
				}
			}
			for k := range l.Body {
				ops = append(ops, l.Op(k, i).withViews(func(_ int, v *View) {
					x := l.Locals[v.Buffer]
					if x.Buffer < 0 {
						v.Buffer = now[v.Buffer]
						return
					}
					start := x.Start + i*x.Stride
					e, zero := at(x.Buffer, start)
					v.move(names[e], start-zero)
				}))
			}
			next := slices.Clone(now)
			for k, x := range l.Locals {
				if x.Kind == Carry {
					next[k] = now[x.Next]
				}
			}
			now = next
		}
		for k, x := range l.Locals {
			if x.Kind == Carry && x.Last.Buffer >= 0 {
				e, _ := at(x.Last.Buffer, x.Last.Start)
				names[e] = now[k]
			}
		}
	}
	return ops
}

// TestRepeats compares random strings with a search of all runs of three periods.
func TestRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.IntRange(0, 2), 0, 12).Draw(t, "ids")
		for range rapid.IntRange(0, 2).Draw(t, "repeats") {
			part := rapid.SliceOfN(rapid.IntRange(0, 2), 1, 8).Draw(t, "part")
			for range rapid.IntRange(2, 5).Draw(t, "times") {
				ids = append(ids, part...)
			}
			ids = append(ids, rapid.SliceOfN(rapid.IntRange(0, 3), 0, 4).Draw(t, "tail")...)
		}
		got := repeats(ids)
		for _, x := range got {
			if x.hi-x.lo < 2*x.period {
				t.Errorf("%v has less than two periods", x)
			}
			for i := x.lo; i+x.period < x.hi; i++ {
				if ids[i] != ids[i+x.period] {
					t.Fatalf("%v is no run of %v", x, ids)
				}
			}
		}
		covered := make([]bool, len(ids)) // by a shorter period
		for period := 1; 3*period <= len(ids); period++ {
			for lo := 0; lo+period < len(ids); lo++ {
				hi := lo + period
				for hi < len(ids) && ids[hi] == ids[hi-period] {
					hi++
				}
				own := hi-lo >= 3*period && !slices.Contains(covered[lo:hi], true) && (lo == 0 || ids[lo-1] != ids[lo-1+period])
				if own && !slices.Contains(got, run{lo, hi, period}) {
					t.Fatalf("%v misses %v: %v", ids, run{lo, hi, period}, got)
				}
				if hi-lo >= 2*period {
					for i := lo; i < hi; i++ {
						covered[i] = true
					}
				}
			}
		}
	})
}

// check reports what is wrong with a rolled program's loops.
func check(r *Rolled) error {
	for i, n := range r.Nodes {
		l := n.Loop
		if l == nil {
			continue
		}
		for k, x := range l.Locals {
			last := x.Start + (l.Count-1)*x.Stride
			switch {
			case (x.Kind == Temp || x.Kind == Carry) != (x.Buffer < 0):
				return fmt.Errorf("node %d: $%d has a buffer, or none", i, k)
			case x.Kind == Carry && (x.Next == k || l.Locals[x.Next].Elems != x.Elems):
				return fmt.Errorf("node %d: $%d continues as $%d", i, k, x.Next)
			case x.Buffer >= 0 && (min(x.Start, last) < 0 || max(x.Start, last)+x.Elems > r.Buffers[x.Buffer].elems()):
				return fmt.Errorf("node %d: $%d is not within its buffer", i, k)
			}
			for m, y := range l.Locals[:k] {
				for t := range l.Count {
					lo, other := x.Start+t*x.Stride, y.Start+t*y.Stride
					if x.Buffer >= 0 && x.Buffer == y.Buffer && (x.Write || y.Write) && lo < other+y.Elems && other < lo+x.Elems {
						return fmt.Errorf("node %d, iteration %d: $%d and $%d overlap", i, t, m, k)
					}
				}
			}
		}
		for k := range l.Body {
			for _, a := range l.Body[k].Args {
				for m := range a.Views {
					v := &a.Views[m]
					if v.Buffer < 0 {
						continue
					}
					x := &l.Locals[v.Buffer]
					if lo, hi := v.bytes(); lo < 0 || hi > x.bytes() {
						return fmt.Errorf("node %d: operation %d is not within $%d", i, k, v.Buffer)
					}
					if a.Read && !x.Read || a.Write && !x.Write && l.Body[k].Name != barrier {
						return fmt.Errorf("node %d: operation %d uses $%d", i, k, v.Buffer)
					}
				}
			}
		}
		for _, s := range l.Streams {
			if len(s) != l.Count {
				return fmt.Errorf("node %d: %d streams", i, len(s))
			}
		}
	}
	return nil
}

// TestRollRandom checks the loops of random programs: unrolled they have the program's operations, and
// they replay to the same bits.
func TestRollRandom(t *testing.T) {
	loops, kinds := 0, map[LocalKind]int{}
	rapid.Check(t, func(t *rapid.T) {
		b := New(naive.New())
		state := b.New(tensor.Params, tensor.F32, 64)
		rec, err := b.Record(true, func() error { return randomStep(t, b, state) })
		if err != nil {
			t.Fatal(err)
		}
		rolled, whole := rec.roll(), rec.Roll()
		if err := check(rolled); err != nil {
			t.Fatalf("%v\n%v\n%v", err, rec.Program, rolled)
		}
		if diff := Diff(plain(rec.Ops), plain(unroll(rolled))); diff != "" {
			t.Fatalf("%s\n%v\n%v", diff, rec.Program, rolled)
		}
		if again := rec.Roll(); again.String() != whole.String() {
			t.Fatal("the program is rolled in two ways")
		}
		var bits [3][]byte
		for i, p := range []*Rolled{rec.straight(), rolled, whole} {
			b.Fill(state, 1)
			if err := b.ReplayRolled(context.Background(), p, rec); err != nil {
				t.Fatal(err)
			}
			bits[i] = make([]byte, state.Bytes())
			b.Download(bits[i], state)
		}
		if !bytes.Equal(bits[0], bits[1]) || !bytes.Equal(bits[0], bits[2]) {
			t.Fatalf("other bits\n%v\n%v\n%v", rec.Program, rolled, whole)
		}
		for _, n := range rolled.Nodes {
			if n.Loop != nil {
				loops++
				for _, x := range n.Loop.Locals {
					kinds[x.Kind]++
				}
			}
		}
	})
	if loops == 0 || len(kinds) < 4 && !testing.Short() { // a short run has a fifth of the programs
		t.Errorf("%d loops with %v", loops, kinds)
	}
}

// randomStep runs random layers forward and backward.
func randomStep(t *rapid.T, b *Backend, state *tensor.Tensor) error {
	type operation struct{ kind, from, to int }
	body := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) operation {
		return operation{rapid.IntRange(0, 4).Draw(t, "kind"), rapid.IntRange(0, 7).Draw(t, "from"), rapid.IntRange(0, 7).Draw(t, "to")}
	}), 1, 5)
	forward, backward := body.Draw(t, "forward"), body.Draw(t, "backward")
	layers := rapid.IntRange(2, 6).Draw(t, "layers")
	odd := rapid.IntRange(-1, 2*layers).Draw(t, "odd") // a layer that has an operation more
	saves := rapid.IntRange(0, 3).Draw(t, "saves")
	skip := rapid.IntRange(1, 3).Draw(t, "skip")
	streams := rapid.IntRange(0, 2).Draw(t, "streams")
	wide := rapid.IntRange(-1, 9).Draw(t, "wide") // a temporary that is larger
	var all []*tensor.Tensor
	fresh := func() *tensor.Tensor {
		n := 4
		if len(all) == wide {
			n = 8
		}
		x := b.New(tensor.Activations, tensor.F32, n).Flat(0, 4)
		b.Fill(x, 1)
		all = append(all, x)
		return x
	}
	seen := []*tensor.Tensor{fresh()}
	var saved [][]*tensor.Tensor
	run := func(ops []operation, layer, param int) {
		operand := func(k int) *tensor.Tensor {
			switch {
			case k == 7 && layer >= layers && len(saved[layer*skip%layers]) > 0:
				return saved[layer*skip%layers][0]
			case k == 6:
				return state.Flat(param*4+2, param*4+6)
			case k == 5:
				return state.Flat(param*8, param*8+4)
			case k == 4:
				return seen[0]
			case k == 3 && layer >= layers && len(saved[2*layers-1-layer]) > 0:
				return saved[2*layers-1-layer][0]
			}
			return seen[max(0, len(seen)-1-k)]
		}
		for _, o := range ops {
			switch o.kind {
			case 0:
				x := operand(o.from)
				y := fresh()
				b.Add(y, y, x)
				seen = append(seen, y)
			case 1:
				b.AddScaled(operand(o.to), operand(o.from), 2)
			case 2:
				if o.from == 7 {
					b.Normal(operand(o.to), tensor.RandKey{Seed: 1, Stream: uint64(layer * layer)}, 0, 0.5)
				}
				b.Normal(operand(o.to), tensor.RandKey{Seed: 1, Stream: uint64(layer * streams % layers)}, 0, 0.5)
			case 4:
				if x := operand(o.to); saves == 3 {
					b.Fill(tensor.Of(x.Buffer(), tensor.U8, 4*x.Offset(), 16), 1)
				}
			case 3:
				b.Copy(operand(o.to), operand(o.from))
			}
		}
		if layer == odd {
			b.Fill(operand(0), 3)
		}
	}
	for l := range layers {
		n := len(seen)
		run(forward, l, l)
		saved = append(saved, seen[max(n, len(seen)-saves):])
	}
	for l := range layers {
		run(backward, layers+l, layers-1-l)
	}
	for _, x := range all {
		x.Release()
	}
	return nil
}
