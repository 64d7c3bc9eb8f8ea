package foreign

import (
	"strconv"
	"strings"

	"trireme/internal/conf"
)

// Reasons why keys have no effect.
const (
	prefetched    = "the next unit is always prefetched"
	gatherLimit   = "parallel.prefetch_units limits prefetched units"
	gatheredWhole = "each unit is gathered as one flat parameter"
)

// stage3Only is a rule for keys that apply to stage 3 only.
func stage3Only(of rule) rule {
	return custom(of.doc+" (stage 3)", func(r *reader, k key) {
		if stage, ok := r.find("zero_optimization", "stage"); ok && sameText(stage.Value, "3") {
			of.apply(r, k)
		}
	})
}

// gatherKeys adds the keys of stage 3, with and without stage3_.
func gatherKeys(ks keys) {
	for name, of := range map[string]rule{
		"prefetch_bucket_size": custom("0: `parallel.prefetch_units` 0; otherwise no effect: the next unit is always prefetched", func(r *reader, k key) {
			if isAuto(k.Value) || !r.checkValue(k, integer) {
				return
			}
			if n, err := k.Int(); err == nil && n == 0 {
				r.assign(k, "parallel.prefetch_units", "0")
			}
		}),
		"param_persistence_threshold": ignored(gatheredWhole),
		"model_persistence_threshold": ignored(gatheredWhole),
		"max_reuse_distance":          ignored("parallel.reshard_after_forward decides what is kept for backward"),
		"max_live_parameters":         ignored(gatherLimit),
	} {
		ks[name], ks["stage3_"+name] = stage3Only(of), stage3Only(of)
	}
	ks["zero_hpz_partition_size"] = stage3Only(custom("`parallel.reshard_after_forward`", func(r *reader, k key) {
		if n, err := k.Int(); r.checkValue(k, integer) && err == nil && n > 1 {
			r.assign(k, "parallel.reshard_after_forward", strconv.FormatInt(n, 10))
		}
	}))
}

// backwardPrefetch is the rule of FSDP's backward_prefetch.
func backwardPrefetch() rule {
	return named(prefetched, []string{"BACKWARD_PRE"}, "BACKWARD_POST", "NO_PREFETCH", "none")
}

// named is a rule for a key without effect. Values in others, and null, are noted.
func named(why string, usual []string, others ...string) rule {
	known := map[string]string{}
	for _, name := range others {
		known[name] = name
	}
	for _, name := range usual {
		known[name] = ""
	}
	return custom("no effect: "+why, func(r *reader, k key) {
		name, ok := "null", true
		if k.Kind != conf.Null {
			name, ok = r.choose(k, known)
		}
		if ok && name != "" {
			r.note(k, "has no effect: "+why)
		}
	})
}

// reshardAfterForward reads FSDP2's key: true, false, or the number of ranks that keep parameters
// gathered; with FSDP1 a strategy's name.
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
