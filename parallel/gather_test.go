package parallel_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"trireme/device"
	"trireme/nn"
	"trireme/parallel"
	"trireme/tensor"
)

// gathers lists what a rank began to gather over an axis, in order.
func (j *journal) gathers() (units []string) {
	for _, what := range j.begun {
		if name, ok := strings.CutPrefix(what, "gather "); ok {
			units = append(units, name)
		}
	}
	return units
}

// TestLevers: what steers gathers is seen in what is gathered, in which order, over which ranks,
// and in how much of it lives at one time.
func TestLevers(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 4, rows: 5}
	forward := []string{"embed", "layer1", "layer2", "layer3", "layer4", "last"}
	back := []string{"layer4", "layer3", "layer2", "layer1", "embed"}
	const world = 4
	sizes, P := c.flatBytes(t, world)
	embed, layer, last := sizes[0], sizes[1], sizes[5]
	elems := func(bytes int) int { return bytes / 4 }
	pre := parallel.Before
	for _, v := range []struct {
		name    string
		gather  parallel.Gather
		reshard int
		want    []string
		live    int // bytes that are gathered at most at one time
		near    int // bytes gathered over the axis reshard
		kept    int // bytes of parameters besides those at rest, at most
	}{
		{name: "nothing", want: slices.Concat(forward, back), live: max(embed, layer, last)},
		{name: "one ahead", gather: oneAhead, want: slices.Concat(forward, back), live: max(embed+layer, 2*layer, layer+last)},
		{name: "forward only", gather: parallel.Gather{Ahead: 1, Forward: pre}, want: slices.Concat(forward, back), live: max(embed+layer, 2*layer, layer+last)},
		{name: "all ahead", gather: parallel.Gather{Ahead: 1 << 40, Forward: pre, Backward: pre}, want: slices.Concat(forward, back), live: P},
		{name: "two layers ahead", gather: parallel.Gather{Ahead: elems(layer) + 1, Forward: pre, Backward: pre}, want: slices.Concat(forward, back),
			live: max(embed+2*layer, 3*layer, 2*layer+last)},
		{name: "two layers ahead, bounded", gather: parallel.Gather{Ahead: elems(layer) + 1, Live: elems(layer + max(embed, layer, last)), Forward: pre, Backward: pre},
			want: slices.Concat(forward, back), live: layer + max(embed, layer, last)},
		{name: "kept", gather: parallel.Gather{Ahead: 1, Forward: pre, Backward: pre, Keep: true}, want: forward, live: P},
		{name: "kept, bounded", gather: parallel.Gather{Keep: true, Live: elems(P - 2*layer)}, live: P - 2*layer,
			want: slices.Concat(forward, []string{"layer2", "layer1", "embed"})},
		{name: "kept by pairs", gather: parallel.Gather{Ahead: 1, Forward: pre, Backward: pre, Keep: true}, reshard: 2, want: slices.Concat(forward, back),
			live: max(embed+layer, 2*layer, layer+last), near: P - last, kept: (P - last) / 2},
		{name: "kept by all", gather: parallel.Gather{Keep: true}, reshard: world, want: slices.Concat(forward, back), live: max(embed, layer, last)},
		{name: "reused at once", gather: parallel.Gather{Reuse: 1}, want: slices.Concat(forward, back), live: max(embed, layer, last)},
		{name: "reused over the head", gather: parallel.Gather{Reuse: elems(2*last) + 1}, want: slices.Concat(forward, back[1:]), live: layer + last},
		{name: "reused over the head and a layer", gather: parallel.Gather{Reuse: elems(2*last+2*layer) + 1}, want: slices.Concat(forward, back[2:]), live: 2*layer + last},
		{name: "reused whatever", gather: parallel.Gather{Reuse: 1 << 40}, want: forward, live: P},
	} {
		d := division{world: world, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, gather: v.gather, reshard: v.reshard}
		js := d.journals()
		d.after = func(rank int, b device.Device, _ *parallel.Engine, rest tensor.Usage) {
			use := b.Meter().Read()
			if got := use.Peak[tensor.Gathered]; got != int64(v.live) {
				t.Errorf("%s: rank %d: %d bytes are gathered at one time, want %d", v.name, rank, got, v.live)
			}
			if got := use.Peak[tensor.Params] - rest.Live[tensor.Params]; got != int64(v.kept) {
				t.Errorf("%s: rank %d: %d bytes are kept, want %d", v.name, rank, got, v.kept)
			}
		}
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(v.name, errors.Join(errs...))
		}
		for rank, j := range js {
			if got := j.gathers(); !slices.Equal(got, v.want) {
				t.Errorf("%s: rank %d gathers %v, want %v", v.name, rank, got, v.want)
			}
			if got := j.volume["gather reshard"]; got != v.near {
				t.Errorf("%s: rank %d gathers %d bytes among neighbours, want %d", v.name, rank, got, v.near)
			}
		}
	}
}

// TestBackwardPost: what goes back next is gathered when the unit that went back is let go of,
// and before its gradients are reduced.
func TestBackwardPost(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 3, rows: 5}
	for when, want := range map[parallel.Prefetch][]string{
		parallel.Never:  {"reduce last", "gather layer3", "reduce layer3", "gather layer2", "reduce layer2", "gather layer1", "reduce layer1", "gather embed", "reduce embed"},
		parallel.Before: {"gather layer3", "reduce last", "gather layer2", "reduce layer3", "gather layer1", "reduce layer2", "gather embed", "reduce layer1", "reduce embed"},
		parallel.After:  {"gather layer3", "reduce last", "gather layer2", "reduce layer3", "gather layer1", "reduce layer2", "gather embed", "reduce layer1", "reduce embed"},
	} {
		d := division{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, gather: parallel.Gather{Ahead: 1, Backward: when}}
		js := d.journals()
		gathered := make([]int64, d.world) // when the first layer goes back
		var devices [2]device.Device
		d.opened = func(rank int, b device.Device) { devices[rank] = b }
		d.in = func(rank, unit int, back bool) {
			if back && unit == 2 {
				gathered[rank] = devices[rank].Meter().Read().Live[tensor.Gathered]
			}
		}
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
		sizes, _ := c.flatBytes(t, 2)
		live := sizes[2]
		if when == parallel.Before {
			live += sizes[1]
		}
		for rank, j := range js {
			begun := j.begun[slices.Index(j.begun, "gather last")+1:]
			if !slices.Equal(begun[:len(want)], want) {
				t.Errorf("%v: rank %d begins %v, want %v", when, rank, begun, want)
			}
			if gathered[rank] != int64(live) {
				t.Errorf("%v: rank %d has gathered %d bytes while layer2 goes back, want %d", when, rank, gathered[rank], live)
			}
		}
	}
}

// TestWrap: units of a group are gathered and reduced as one.
func TestWrap(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 4, rows: 5}
	for _, v := range []struct {
		wrap   parallel.Wrap
		groups []string
	}{
		{parallel.Wrap{}, []string{"embed", "layer1", "layer2", "layer3", "layer4", "last"}},
		{parallel.Wrap{Policy: parallel.WrapSize, MinNumParams: 105}, []string{"embed..layer1", "layer2", "layer3", "layer4", "last"}},
		{parallel.Wrap{Policy: parallel.WrapSize, MinNumParams: 400}, []string{"embed..layer2", "layer3..layer4", "last"}},
		{parallel.Wrap{Policy: parallel.WrapSize}, []string{"embed", "layer1", "layer2", "layer3", "layer4", "last"}},
		{parallel.Wrap{Policy: parallel.WrapNone}, []string{"embed..last"}},
		{parallel.Wrap{Policy: parallel.WrapList, Units: []string{"layer2"}}, []string{"embed..layer1", "layer2", "layer3..last"}},
		{parallel.Wrap{Policy: parallel.WrapList, Units: []string{"last", "embed"}}, []string{"embed", "layer1..layer4", "last"}},
		{parallel.Wrap{Policy: parallel.WrapList, Units: []string{"layer"}}, []string{"embed", "layer1", "layer2", "layer3", "layer4", "last"}},
	} {
		d := division{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, wrap: v.wrap}
		js := d.journals()
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
		back := slices.Clone(v.groups)
		slices.Reverse(back)
		for rank, j := range js {
			if got, want := j.gathers(), slices.Concat(v.groups, back[1:]); !slices.Equal(got, want) {
				t.Errorf("%+v: rank %d gathers %v, want %v", v.wrap, rank, got, want)
			}
			var reduced []string
			for _, what := range j.begun {
				if name, ok := strings.CutPrefix(what, "reduce "); ok {
					reduced = append(reduced, name)
				}
			}
			if !slices.Equal(reduced, back) {
				t.Errorf("%+v: rank %d reduces %v, want %v", v.wrap, rank, reduced, back)
			}
		}
	}
	b := openDevice(t)
	defer b.Close()
	units := c.make(b).units
	err := parallel.Wrap{Policy: parallel.WrapList, Units: []string{"layer2", "layer9"}}.Check(units)
	if err == nil || !strings.Contains(err.Error(), "called layer9. units: embed, layer, last") {
		t.Errorf("an unknown unit: %v", err)
	}
	for _, bad := range []parallel.Wrap{{MinNumParams: -1}, {Policy: parallel.WrapList}, {Policy: parallel.WrapSize, Units: []string{"layer"}}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestPersist: small parameters stay whole, are not gathered, and are sent after each update, all
// at once; what is multiplied as one stays together; gradients and moments are divided.
func TestPersist(t *testing.T) {
	const world = 2
	c := toy{V: 13, D: 8, F: 9, layers: 3, rows: 5}
	b := openDevice(t)
	defer b.Close()
	units := c.make(b).units
	for _, v := range []struct {
		persist parallel.Persist
		small   func(name string) bool
	}{
		{parallel.Persist{}, func(string) bool { return false }},
		{parallel.Persist{Most: 7}, func(string) bool { return false }},
		{parallel.Persist{Most: 8}, func(name string) bool { return strings.Contains(name, "norm") }},
		{parallel.Persist{Most: 9}, func(name string) bool { return strings.Contains(name, "norm") || strings.Contains(name, "bias") }},
		{parallel.Persist{Most: 9, InAll: 26}, func(name string) bool {
			return name == "layer1.norm.weight" || strings.HasPrefix(name, "layer1") && strings.Contains(name, "bias")
		}},
		{parallel.Persist{Most: 9, InAll: 25}, func(name string) bool { return strings.HasSuffix(name, "norm.weight") && name != "last.norm.weight" }},
		{parallel.Persist{Most: 1 << 30}, func(string) bool { return true }},
	} {
		var at, moments, gathered int
		var whole []*nn.Param
		for i, u := range units {
			var part []*nn.Param
			for _, p := range u.Params {
				if v.small(p.Name) {
					whole = append(whole, p)
				} else {
					part = append(part, p)
				}
			}
			p := padded(part, world)
			at += p / world
			moments += 2 * p / world
			if gathered += p; i < len(units)-1 {
				gathered += p
			}
		}
		sent := padded(whole, world)
		at, moments = at+sent, moments+2*sent/world
		for _, precision := range []parallel.Precision{{}, half} {
			c.precision = precision
			d := division{world: world, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, persist: v.persist, gather: oneAhead}
			js := d.journals()
			size := precision.Param.Size()
			d.after = func(rank int, b device.Device, _ *parallel.Engine, _ tensor.Usage) {
				use := b.Meter().Read().Live
				for cat, want := range map[tensor.Category]int{tensor.Params: at * size, tensor.Optimizer: 4 * moments, tensor.Grads: 2 * moments} {
					if use[cat] != int64(want) {
						t.Errorf("%+v: rank %d holds %d bytes of %v, want %d", v.persist, rank, use[cat], cat, want)
					}
				}
			}
			if _, errs := c.train(t, d); errors.Join(errs...) != nil {
				t.Fatal(errors.Join(errs...))
			}
			want := (gathered + sent) * size
			if precision.Param != tensor.F32 {
				want += sent * size // before the first step
			}
			for rank, j := range js {
				reduced := 0
				for _, what := range j.begun {
					if what == "reduce persistent" {
						reduced++
					}
				}
				if most := min(sent, 1); reduced != most {
					t.Errorf("%+v: rank %d reduces small gradients %d times, want %d", v.persist, rank, reduced, most)
				}
				if got := j.volume["gather shard"]; got != want {
					t.Errorf("%+v: rank %d gathers %d bytes, want %d", v.persist, rank, got, want)
				}
			}
		}
	}
}

// TestLittleIsGathered: one unit ahead, never more than two units are gathered: not over several
// passes of an evaluation, nor where a unit does not run.
func TestLittleIsGathered(t *testing.T) {
	for _, skip := range []int{0, 2} {
		c := toy{V: 13, D: 8, F: 9, layers: 4, rows: 5, skip: skip, tied: true}
		sizes, _ := c.flatBytes(t, 2)
		d := division{world: 2, accumulation: 2, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, evaluate: true, gather: oneAhead}
		d.after = func(rank int, b device.Device, _ *parallel.Engine, _ tensor.Usage) {
			if got, want := b.Meter().Read().Peak[tensor.Gathered], int64(2*slices.Max(sizes)); got > want {
				t.Errorf("without layer %d, rank %d: %d bytes are gathered at one time, want at most %d", skip, rank, got, want)
			}
		}
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
	}
}

// TestGroupsAhead: while the first unit of a group computes, the next group's gather has begun.
func TestGroupsAhead(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 4, rows: 5}
	d := division{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, gather: oneAhead,
		wrap: parallel.Wrap{Policy: parallel.WrapList, Units: []string{"layer2"}}}
	js := d.journals()
	d.in = func(rank, unit int, back bool) {
		if unit == 0 && !back && !js[rank].await("gather layer2", 1) {
			t.Errorf("rank %d: while the first group computes, the next one's gather has not begun", rank)
		}
	}
	if _, errs := c.train(t, d); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
}

func TestGathering(t *testing.T) {
	for text, want := range map[string]string{
		"5e7": "50000000", "auto": "auto", "0": "0", "1_000": "1000", "-1": "", "1.5": "", "1e30": "", "1e999999999": "", "x": "", "": "", "Inf": "", "0x10": "16",
	} {
		var n parallel.Elements
		err := n.UnmarshalText([]byte(text))
		got, _ := n.MarshalText()
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("elements %q: %s, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"true": "true", "false": "false", "4": "4", "1": "false", "0": "", "-2": "", "yes": ""} {
		var r parallel.Reshard
		err := r.UnmarshalText([]byte(text))
		got, _ := r.MarshalText()
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("reshard_after_forward %q: %s, %v", text, got, err)
		}
	}
	c := parallel.Default()
	c.ReshardAfterForward = 3
	if _, _, _, err := c.Resolve(4, 0); err == nil || !strings.Contains(err.Error(), "does not divide the 4 ranks") {
		t.Errorf("groups of 3 in 4 ranks: %v", err)
	}
	if _, _, _, err := c.Resolve(6, 0); err != nil || c.ReshardGroup(6) != 3 {
		t.Errorf("groups of 3 in 6 ranks: %d, %v", c.ReshardGroup(6), err)
	}
	c.Strategy = "no_shard"
	if _, _, _, err := c.Resolve(4, 0); err != nil || c.ReshardGroup(4) != 0 {
		t.Errorf("groups of 3 where parameters are whole: %d, %v", c.ReshardGroup(4), err)
	}
	c.PrefetchBucketSize = parallel.Auto
	if got := fmt.Sprintf("%+v", c.Gather(64)); got != "{Ahead:3686 Forward:1 Backward:1 Live:0 Reuse:0 Keep:true}" {
		t.Errorf("%s", got)
	}
}
