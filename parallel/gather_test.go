package parallel_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"trireme/device"
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
	for _, v := range []struct {
		name    string
		gather  parallel.AllGather
		reshard int
		want    []string
		live    int // bytes that are gathered at most at one time
		near    int // bytes gathered over the axis reshard
		kept    int // bytes of parameters besides those at rest, at most
	}{
		{name: "nothing", want: slices.Concat(forward, back), live: max(embed, layer, last)},
		{name: "one ahead", gather: oneAhead, want: slices.Concat(forward, back), live: max(embed+layer, 2*layer, layer+last)},
		{name: "two ahead", gather: parallel.AllGather{Prefetch: 2}, want: slices.Concat(forward, back), live: max(embed+2*layer, 3*layer, 2*layer+last)},
		{name: "all ahead", gather: parallel.AllGather{Prefetch: len(forward)}, want: slices.Concat(forward, back), live: P},
		{name: "kept", gather: parallel.AllGather{Prefetch: 1, Keep: true}, want: forward, live: P},
		{name: "kept by pairs", gather: parallel.AllGather{Prefetch: 1, Keep: true}, reshard: 2, want: slices.Concat(forward, back),
			live: max(embed+layer, 2*layer, layer+last), near: P - last, kept: (P - last) / 2},
		{name: "kept by all", gather: parallel.AllGather{Keep: true}, reshard: world, want: slices.Concat(forward, back), live: max(embed, layer, last)},
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

// TestBackward: in backward the next unit is gathered before the current one computes, or, with
// nothing ahead, when it runs.
func TestBackward(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 3, rows: 5}
	for ahead, want := range [][]string{
		{"reduce last", "gather layer3", "reduce layer3", "gather layer2", "reduce layer2", "gather layer1", "reduce layer1", "gather embed", "reduce embed"},
		{"gather layer3", "reduce last", "gather layer2", "reduce layer3", "gather layer1", "reduce layer2", "gather embed", "reduce layer1", "reduce embed"},
	} {
		d := division{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, gather: parallel.AllGather{Prefetch: ahead}}
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
		live := sizes[2] + ahead*sizes[1]
		for rank, j := range js {
			begun := j.begun[slices.Index(j.begun, "gather last")+1:]
			if !slices.Equal(begun[:len(want)], want) {
				t.Errorf("%d ahead: rank %d begins %v, want %v", ahead, rank, begun, want)
			}
			if gathered[rank] != int64(live) {
				t.Errorf("%d ahead: rank %d has gathered %d bytes while layer2 goes back, want %d", ahead, rank, gathered[rank], live)
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

// TestNothingIsKeptInEvaluation: a pass without backward keeps no parameters for it.
func TestNothingIsKeptInEvaluation(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 4, rows: 5}
	sizes, P := c.flatBytes(t, 2)
	d := division{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, evaluate: true, gather: parallel.AllGather{Prefetch: 1, Keep: true}}
	var devices [2]device.Device
	var gathered [2][]int64 // when the last unit runs forward
	d.opened = func(rank int, b device.Device) { devices[rank] = b }
	d.in = func(rank, unit int, back bool) {
		if unit == len(sizes)-1 && !back {
			gathered[rank] = append(gathered[rank], devices[rank].Meter().Read().Live[tensor.Gathered])
		}
	}
	if _, errs := c.train(t, d); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	last := int64(sizes[len(sizes)-1])
	for rank, got := range gathered {
		if want := []int64{last, last, int64(P)}; !slices.Equal(got, want) { // two passes of an evaluation, then a step
			t.Errorf("rank %d has gathered %d bytes at the last unit, want %d", rank, got, want)
		}
	}
}

func TestGathering(t *testing.T) {
	for text, want := range map[string]string{"true": "true", "false": "false", "4": "4", "1": "false", "0": "", "-2": "", "yes": ""} {
		var r parallel.Reshard
		err := r.UnmarshalText([]byte(text))
		got, _ := r.MarshalText()
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("reshard_after_forward %q: %s, %v", text, got, err)
		}
	}
	c := parallel.Default()
	for reshard, want := range map[parallel.Reshard]parallel.AllGather{
		parallel.ReshardAlways: {Prefetch: 1}, parallel.ReshardNever: {Prefetch: 1, Keep: true}, 3: {Prefetch: 1, Keep: true},
	} {
		if c.ReshardAfterForward = reshard; c.AllGather() != want {
			t.Errorf("reshard_after_forward %d is %+v, want %+v", reshard, c.AllGather(), want)
		}
	}
	c.ReshardAfterForward = 3
	if _, _, err := c.Resolve(4, 0); err == nil || !strings.Contains(err.Error(), "does not divide the 4 ranks") {
		t.Errorf("groups of 3 in 4 ranks: %v", err)
	}
	if _, _, err := c.Resolve(6, 0); err != nil || c.ReshardGroup(6) != 3 {
		t.Errorf("groups of 3 in 6 ranks: %d, %v", c.ReshardGroup(6), err)
	}
	c.Strategy = "no_shard"
	if _, _, err := c.Resolve(4, 0); err != nil || c.ReshardGroup(4) != 0 {
		t.Errorf("groups of 3 where parameters are whole: %d, %v", c.ReshardGroup(4), err)
	}
}
