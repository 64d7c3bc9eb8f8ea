package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"trireme/checkpoint"
	"trireme/fault"
	"trireme/hub"
	"trireme/internal/conf"
	"trireme/train"
)

// perMachineKeys may differ between ranks on different machines.
var perMachineKeys = map[string]bool{
	"name": true, "output_dir": true, "model.path": true, "model.config": true, "data.path": true, "data.eval_path": true,
	"data.tokenizer": true, "data.cache_dir": true, "device.threads": true, "device.numa": true, "device.plugin": true, "parallel.interface": true,
}

// rankConfig is the message that ranks compare.
type rankConfig struct {
	Config string
	Local  int // ranks per machine if the mesh depends on it, else 0
}

// checkSameConfig refuses ranks with different configurations, which another launcher makes possible.
// local is the number of ranks on this machine.
func (j *job) checkSameConfig(ctx context.Context, ranks checkpoint.ProcessGroup, local int) error {
	mine := rankConfig{Config: j.resolved}
	if j.cfg.Parallel.ByMachine() {
		mine.Local = local
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	all, err := ranks.AllGatherBytes(ctx, text)
	if err != nil {
		return err
	}
	var first train.Config
	var ranksOfFirst int
	for rank, text := range all {
		var theirs rankConfig
		var same strings.Builder
		err := json.Unmarshal(text, &theirs)
		loaded, unread := conf.Load(train.Default(), conf.Text("its configuration", theirs.Config))
		if err = errors.Join(err, unread); err == nil {
			err = conf.Print(&same, loaded.Value, nil)
		}
		if err != nil || same.String() != theirs.Config {
			return fault.Try(fmt.Errorf("rank %d runs another version than rank %d", rank, ranks.Rank()), "the same program on all machines")
		}
		if rank == 0 {
			first, ranksOfFirst = loaded.Value, theirs.Local
		}
		changes := conf.Diff(first, loaded.Value)
		if theirs.Local != ranksOfFirst {
			changes = append(changes, conf.Change{Path: "LOCAL_WORLD_SIZE", From: strconv.Itoa(ranksOfFirst), To: strconv.Itoa(theirs.Local)})
		}
		for _, c := range changes {
			if !perMachineKeys[c.Path] || pinned(c.From) && pinned(c.To) {
				err := fmt.Errorf("rank %d has another configuration than rank 0: %s is %s, and %s on rank 0", rank, c.Path, cmp.Or(c.To, "not set"), cmp.Or(c.From, "not set"))
				return &train.InputError{Err: fault.Try(err, "the same file, flags and variables on all ranks")}
			}
		}
	}
	return nil
}

// pinned reports whether a value is a name on the hub with a commit, which must be the same on all
// ranks.
func pinned(value string) bool {
	n, ok := hub.ParseDataset(strings.Trim(value, `"'`))
	return ok && n.Pinned()
}
