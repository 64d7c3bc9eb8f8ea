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

// gathers lists the all-gathers that a rank started over an axis, in order.
func (j *journal) gathers() (units []string) {
	for _, what := range j.begun {
		if name, ok := strings.CutPrefix(what, "gather "); ok {
			units = append(units, name)
		}
	}
	return units
}

// TestAllGatherPolicies: each policy decides what is all-gathered, in which order, over which ranks,
// and the peak memory.
func TestAllGatherPolicies(t *testing.T) {
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
		live    int // peak bytes of unsharded parameters
		near    int // bytes all-gathered over the axis reshard
		kept    int // peak bytes of parameters besides the shards
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
		d := setup{world: world, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, gather: v.gather, reshard: v.reshard}
		js := d.journals()
		d.after = func(rank int, b device.Device, _ *parallel.Engine, rest tensor.Usage) {
			use := b.Meter().Read()
			if got := use.Peak[tensor.Gathered]; got != int64(v.live) {
				t.Errorf("%s: rank %d: peak of %d unsharded bytes, want %d", v.name, rank, got, v.live)
			}
			if got := use.Peak[tensor.Params] - rest.Live[tensor.Params]; got != int64(v.kept) {
				t.Errorf("%s: rank %d: %d bytes kept, want %d", v.name, rank, got, v.kept)
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
				t.Errorf("%s: rank %d gathers %d bytes among neighbors, want %d", v.name, rank, got, v.near)
			}
		}
	}
}

// TestBackward: in backward the next unit is all-gathered before the current one computes, or, without
// prefetch, when it runs.
func TestBackward(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 3, rows: 5}
	for ahead, want := range [][]string{
		{"reduce last", "gather layer3", "reduce layer3", "gather layer2", "reduce layer2", "gather layer1", "reduce layer1", "gather embed", "reduce embed"},
		{"gather layer3", "reduce last", "gather layer2", "reduce layer3", "gather layer1", "reduce layer2", "gather embed", "reduce layer1", "reduce embed"},
	} {
		d := setup{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, gather: parallel.AllGather{Prefetch: ahead}}
		js := d.journals()
		gathered := make([]int64, d.world) // in backward of the first layer
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
				t.Errorf("prefetch %d: rank %d starts %v, want %v", ahead, rank, begun, want)
			}
			if gathered[rank] != int64(live) {
				t.Errorf("prefetch %d: rank %d has %d unsharded bytes in backward of layer2, want %d", ahead, rank, gathered[rank], live)
			}
		}
	}
}

// TestGatheredMemoryIsBounded: with prefetch 1, up to two units are unsharded, also over several evaluation
// passes and with a skipped unit.
func TestGatheredMemoryIsBounded(t *testing.T) {
	for _, skip := range []int{0, 2} {
		c := toy{V: 13, D: 8, F: 9, layers: 4, rows: 5, skip: skip, tied: true}
		sizes, _ := c.flatBytes(t, 2)
		d := setup{world: 2, accumulation: 2, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, evaluate: true, gather: oneAhead}
		d.after = func(rank int, b device.Device, _ *parallel.Engine, _ tensor.Usage) {
			if got, want := b.Meter().Read().Peak[tensor.Gathered], int64(2*slices.Max(sizes)); got > want {
				t.Errorf("without layer %d, rank %d: peak of %d unsharded bytes, want up to %d", skip, rank, got, want)
			}
		}
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
	}
}

// TestEvaluationKeepsNothing: an evaluation pass keeps no parameters for backward.
func TestEvaluationKeepsNothing(t *testing.T) {
	c := toy{V: 13, D: 8, F: 9, layers: 4, rows: 5}
	sizes, P := c.flatBytes(t, 2)
	d := setup{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, evaluate: true, gather: parallel.AllGather{Prefetch: 1, Keep: true}}
	var devices [2]device.Device
	var gathered [2][]int64 // in forward of the last unit
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
		if want := []int64{last, last, int64(P)}; !slices.Equal(got, want) { // two evaluation passes, then a step
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
		t.Errorf("groups of 3 with unsharded parameters: %d, %v", c.ReshardGroup(4), err)
	}
}
