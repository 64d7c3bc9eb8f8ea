package convert

import "strings"

// wrappers are name segments that wrappers of modules add: torch.compile, FSDP, activation
// checkpointing.
var wrappers = map[string]bool{"_orig_mod": true, "_fsdp_wrapped_module": true, "_checkpoint_wrapped_module": true}

// clean returns the name of a tensor without the segments of wrappers. module, of
// DistributedDataParallel and DeepSpeed, is removed at the start only: models use it too.
func clean(name string) string {
	parts := strings.Split(name, ".")
	kept := parts[:0]
	for _, p := range parts {
		if !wrappers[p] && !(p == "module" && len(kept) == 0) {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return name
	}
	return strings.Join(kept, ".")
}
