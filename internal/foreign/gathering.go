package foreign

import (
	"math"
	"strconv"
	"strings"

	"trireme/internal/conf"
)

// What steers gathers: of DeepSpeed's stage 3, and of FSDP.

// hostAhead says why a key of FSDP's is not followed to the letter.
const hostAhead = "gathers run a unit ahead on the way forward, as they do there, where the host runs ahead of its device"

// ofStage3 is a rule for what has a meaning where parameters are divided.
func ofStage3(of rule) rule {
	return rule{apply: func(r *reader, k key) {
		if stage, ok := r.find("zero_optimization", "stage"); !ok || !sameText(stage.Value, "3") {
			r.note(k, "is of stage 3", true)
			return
		}
		of.apply(r, k)
	}}
}

// gatherKeys are stage 3's, by their names with stage3_ and without.
func gatherKeys(ks keys) {
	for name, of := range map[string]rule{
		"prefetch_bucket_size":        elements("prefetch_bucket_size"),
		"param_persistence_threshold": elements("param_persistence_threshold"),
		"model_persistence_threshold": elements("model_persistence_threshold"),
		"max_reuse_distance":          elements("max_reuse_distance"),
		"max_live_parameters": {apply: func(r *reader, k key) {
			switch n, err := k.Int(); {
			case !r.right(k, whole) || err != nil:
			case n == 0: // nothing but what runs, where 0 is no bound here
				r.assign(k, "parallel.max_live_parameters", "1")
			default:
				r.assign(k, "parallel.max_live_parameters", k.Text)
			}
		}},
	} {
		ks[name], ks["stage3_"+name] = ofStage3(of), ofStage3(of)
	}
	ks["zero_hpz_partition_size"] = ofStage3(rule{apply: func(r *reader, k key) {
		switch n, err := k.Int(); {
		case !r.right(k, whole) || err != nil:
		case n < 2:
			r.note(k, "", true)
		default:
			r.assign(k, "parallel.reshard_after_forward", strconv.FormatInt(n, 10))
		}
	}})
}

// elements assigns a number of them; "auto" is a function of the model here too.
func elements(name string) rule {
	return rule{apply: func(r *reader, k key) {
		if isAuto(k.Value) || r.right(k, whole) {
			r.assign(k, "parallel."+name, k.Text)
		}
	}}
}

// backwardPrefetch is FSDP's; null is none.
func backwardPrefetch() rule {
	names := as("parallel.backward_prefetch", map[string]string{
		"BACKWARD_PRE": "backward_pre", "BACKWARD_POST": "backward_post", "NO_PREFETCH": "none", "none": "none",
	})
	return rule{apply: func(r *reader, k key) {
		if k.Kind == conf.Null {
			r.assign(k, "parallel.backward_prefetch", "none")
			return
		}
		names.apply(r, k)
	}}
}

// limitAllGathers is FSDP's: true is two units at a time, the one that computes and the next.
func limitAllGathers() rule {
	return rule{apply: func(r *reader, k key) {
		if !r.right(k, boolean) {
			return
		}
		if limited, _ := k.Bool(); limited {
			r.assign(k, "parallel.prefetch_bucket_size", "1")
			return
		}
		r.assign(k, "parallel.prefetch_bucket_size", strconv.FormatInt(math.MaxInt64, 10))
		r.note(k, "gathers run ahead without a limit, so that all parameters may be gathered at one time. parallel.max_live_parameters bounds them", false)
	}}
}

// wrapPolicy is what FSDP wraps, by its names for layers, for sizes and for nothing.
func wrapPolicy(names map[string]string) rule { return as("parallel.wrap.policy", names) }

// minParams is the size for a policy by size; with another it asks for nothing.
func minParams(policy ...string) rule {
	return rule{apply: func(r *reader, k key) {
		if !r.right(k, whole) {
			return
		}
		if by, _ := r.find(policy...); !strings.Contains(strings.ToLower(by.Text), "size") {
			r.note(k, "", true)
			return
		}
		r.assign(k, "parallel.wrap.min_num_params", k.Text)
	}}
}

// reshardAfterForward is FSDP2's: true, false, or of how many ranks the groups are that keep
// parameters.
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
