package cli

import (
	"context"
	"fmt"
	"strings"

	"trireme/checkpoint"
	"trireme/hub"
	"trireme/train"
)

// places are keys whose values may differ between ranks, which may be on different machines.
var places = map[string]bool{
	"name": true, "output_dir": true, "model.path": true, "model.config": true, "data.path": true, "data.eval_path": true,
	"data.tokenizer": true, "data.cache_dir": true, "device.threads": true,
}

// sameEverywhere refuses ranks that were started with different configurations: where
// another launcher starts them, each reads its own. local, the number of ranks of this machine, is
// compared where it decides the mesh.
func (j *job) sameEverywhere(ctx context.Context, ranks checkpoint.Agreement, local int) error {
	text := j.resolved
	if j.cfg.Parallel.ByMachine() {
		text += fmt.Sprintf("LOCAL_WORLD_SIZE: %d\n", local)
	}
	all, err := ranks.Gather(ctx, []byte(text))
	if err != nil {
		return err
	}
	first := flatten(string(all[0]))
	for rank, text := range all {
		for i, theirs := range flatten(string(text)) {
			if i >= len(first) || theirs[0] != first[i][0] {
				return fmt.Errorf("rank %d is of another version than rank 0. try: the same program on all machines", rank)
			}
			if key := theirs[0]; theirs[1] != first[i][1] && !(places[key] && !(pinned(theirs[1]) && pinned(first[i][1]))) {
				return &train.InputError{Err: fmt.Errorf("rank %d has another configuration than rank 0: %s is %s there, %s at rank 0. try: the same file, flags and variables for all", rank, key, theirs[1], first[i][1])}
			}
		}
	}
	return nil
}

// pinned tells whether a value is a name on the hub with a commit: those must be the same.
func pinned(value string) bool {
	n, ok := hub.ParseDataset(strings.Trim(value, `"'`))
	return ok && n.Pinned()
}

// flatten turns a configuration as conf prints it into paths with values.
func flatten(text string) (out [][2]string) {
	var path []string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		path = append(path[:min(depth, len(path))], key)
		out = append(out, [2]string{strings.Join(path, "."), strings.TrimSpace(value)})
	}
	return out
}
