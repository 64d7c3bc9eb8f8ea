package foreign

import (
	"math"
	"strconv"
	"strings"

	"trireme/internal/conf"
)

// What steers gathers: of DeepSpeed's stage 3, and of FSDP.

// prefetched says why FSDP's forward_prefetch has no effect.
const prefetched = "the next unit is always prefetched"

// ofStage3 is a rule for what has a meaning where parameters are divided.
func ofStage3(of rule) rule {
	return custom(of.says+" (stage 3)", func(r *reader, k key) {
		if stage, ok := r.find("zero_optimization", "stage"); ok && sameText(stage.Value, "3") {
			of.apply(r, k)
		}
	})
}

// gatherKeys are stage 3's, by their names with stage3_ and without.
func gatherKeys(ks keys) {
	for name, of := range map[string]rule{
		"prefetch_bucket_size":        elements("prefetch_bucket_size"),
		"param_persistence_threshold": elements("param_persistence_threshold"),
		"model_persistence_threshold": elements("model_persistence_threshold"),
		"max_reuse_distance":          elements("max_reuse_distance"),
		"max_live_parameters": custom("`parallel.max_live_parameters`; 0 becomes 1: nothing beyond the running unit", func(r *reader, k key) {
			switch n, err := k.Int(); {
			case !r.right(k, whole) || err != nil:
			case n == 0: // nothing but the running unit, where 0 is no bound here
				r.assign(k, "parallel.max_live_parameters", "1")
			default:
				r.assign(k, "parallel.max_live_parameters", k.Text)
			}
		}),
	} {
		ks[name], ks["stage3_"+name] = ofStage3(of), ofStage3(of)
	}
	ks["zero_hpz_partition_size"] = ofStage3(custom("`parallel.reshard_after_forward`", func(r *reader, k key) {
		if n, err := k.Int(); r.right(k, whole) && err == nil && n > 1 {
			r.assign(k, "parallel.reshard_after_forward", strconv.FormatInt(n, 10))
		}
	}))
}

// elements assigns a number of them; "auto" is a function of the model here too.
func elements(name string) rule {
	return custom("`parallel."+name+"`", func(r *reader, k key) {
		if isAuto(k.Value) || r.right(k, whole) {
			r.assign(k, "parallel."+name, k.Text)
		}
	})
}

// backwardPrefetch is FSDP's; null is none.
func backwardPrefetch() rule {
	names := as("parallel.backward_prefetch", map[string]string{
		"BACKWARD_PRE": "backward_pre", "BACKWARD_POST": "backward_post", "NO_PREFETCH": "none", "none": "none",
	})
	return custom(names.says, func(r *reader, k key) {
		if k.Kind == conf.Null {
			r.assign(k, "parallel.backward_prefetch", "none")
			return
		}
		names.apply(r, k)
	})
}

// limitAllGathers is FSDP's: true is two units at a time, the one that runs and the next.
func limitAllGathers() rule {
	return custom("`parallel.prefetch_bucket_size`: true is 1, one unit ahead; false is no bound", func(r *reader, k key) {
		if !r.right(k, boolean) {
			return
		}
		if limited, _ := k.Bool(); limited {
			r.assign(k, "parallel.prefetch_bucket_size", "1")
			return
		}
		r.assign(k, "parallel.prefetch_bucket_size", strconv.FormatInt(math.MaxInt64, 10))
		r.note(k, "removes the bound on prefetching: all parameters may be gathered at one time. parallel.max_live_parameters bounds them")
	})
}

// wrapPolicy is what FSDP wraps, by its names for layers, for sizes and for nothing.
func wrapPolicy(names map[string]string) rule { return as("parallel.wrap.policy", names) }

// minParams is the size for a policy by size; with another it has no effect.
func minParams(policy ...string) rule {
	return custom("`parallel.wrap.min_num_params`, with a policy by size", func(r *reader, k key) {
		by, _ := r.find(policy...)
		if r.right(k, whole) && strings.Contains(strings.ToLower(by.Text), "size") {
			r.assign(k, "parallel.wrap.min_num_params", k.Text)
		}
	})
}

// reshardAfterForward is FSDP2's: true, false, or the number of ranks among which gathered
// parameters are kept; of FSDP's first version it is a strategy's name.
func (r *reader) reshardAfterForward(k key) {
	if n, err := k.Int(); err == nil && n > 1 {
		r.assign(k, "parallel.reshard_after_forward", strconv.FormatInt(n, 10))
		return
	}
	names := map[string]string{"true": "", "false": ""}
	for theirs, ours := range strategies {
		names[theirs] = ours
	}
	switch name, ok := r.choose(k, names); {
	case !ok:
	case name == "":
		r.assign(k, "parallel.reshard_after_forward", strings.ToLower(k.Text))
	default:
		r.assign(k, "parallel.strategy", name)
	}
}
