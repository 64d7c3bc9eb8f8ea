package checkpoint

import (
	"fmt"
	"path/filepath"
	"strings"

	"trireme/fault"
	"trireme/internal/conf"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
)

// Keep selects the checkpoints of a run that stay in a directory.
type Keep struct {
	// KeepLastN keeps the newest n checkpoints. After each save, those that neither this key nor
	// keep_every_n_steps nor keep_hours keeps are deleted; if all three are 0, all are kept.
	// Default 0.
	KeepLastN int `yaml:"keep_last_n"`
	// KeepEveryNSteps keeps checkpoints of steps that are multiples of n. Default 0.
	KeepEveryNSteps int `yaml:"keep_every_n_steps"`
	// KeepHours keeps checkpoints that were saved up to this many hours before the newest one.
	// Default 0.
	KeepHours float64 `yaml:"keep_hours"`
	// KeepSize deletes the oldest checkpoints until those of the run take up to this size, with its
	// unit. The newest and the best are kept in any case. Empty is no limit. Default "".
	KeepSize Bytes `yaml:"keep_size"`
}

// check returns an error for an invalid value. prefix is that of the keys.
func (k Keep) check(prefix string) error {
	switch {
	case k.KeepLastN < 0:
		return fault.At(prefix+"keep_last_n", "is %d: it must be 0 or more; 0 keeps all", k.KeepLastN)
	case k.KeepEveryNSteps < 0:
		return fault.At(prefix+"keep_every_n_steps", "is %d: it must be 0 or more; 0 keeps none", k.KeepEveryNSteps)
	case !(k.KeepHours >= 0):
		return fault.At(prefix+"keep_hours", "is %v: it must not be negative", k.KeepHours)
	}
	return nil
}

// first returns the first key that is set; "" if none is.
func (k Keep) first() string {
	switch {
	case k.KeepLastN != 0:
		return "keep_last_n"
	case k.KeepEveryNSteps != 0:
		return "keep_every_n_steps"
	case k.KeepHours != 0:
		return "keep_hours"
	case k.KeepSize != 0:
		return "keep_size"
	}
	return ""
}

// Config is the node `checkpoint`: when to save checkpoints and how many to keep.
type Config struct {
	// SaveEveryNSteps saves a checkpoint after every n optimizer steps; 0 saves only at the end.
	// Default 0.
	SaveEveryNSteps int `yaml:"save_every_n_steps"`
	// SaveEveryNEpochs also saves every n epochs; fractions are allowed. Default 0.
	SaveEveryNEpochs float64 `yaml:"save_every_n_epochs"`
	// SaveEveryNMinutes also saves when n minutes have passed since the last save or the start.
	// Default 0.
	SaveEveryNMinutes float64 `yaml:"save_every_n_minutes"`
	// Async writes checkpoints in the background while the run goes on. Before the next update, the rest of the state is
	// copied. One checkpoint is written at a time. The run waits for its last one and for one before a stop.
	// Default false.
	Async bool `yaml:"async"`
	// AsyncMemory limits the memory of a rank for that copy, with its unit. An update waits until the
	// rest is written. Empty is no limit: the rank's part of a checkpoint. Default "".
	AsyncMemory Bytes `yaml:"async_memory"`
	Keep
	// KeepBest saves after an evaluation that is better than all before
	// (training.metric_for_best_model) and keeps that checkpoint until a better one is saved.
	// training.load_best_model_at_end does so too. Default false.
	KeepBest bool `yaml:"keep_best"`
	// StateDictType is the layout on disk. One of sharded | full. sharded writes one file per rank,
	// full one file with full tensors; both load into any number of ranks. Empty is sharded.
	// Default "".
	StateDictType string `yaml:"state_dict_type"`
	// Dir is the checkpoint directory, with one subdirectory step-N per checkpoint; empty is
	// checkpoints in the output directory. All ranks must see the same directory. s3://BUCKET/PREFIX is in an object
	// store (docs/object-stores.md). Default "".
	Dir string `yaml:"dir"`
	// Tiers are where checkpoints are saved, the fastest first: each has dir, save_every_n_steps, and keep_last_n,
	// keep_every_n_steps, keep_hours and keep_size. dir memory is the memory of the hosts: its two newest checkpoints outlive
	// processes that are restarted (--max_restarts). The next tier is the directory of the run's checkpoints, which these keys
	// above are for without tiers. Its checkpoints are copied in the background to the last tier, another directory or
	// s3://BUCKET/KEY, if there is one. Default [].
	Tiers []Tier `yaml:"tiers"`
}

// Tier is an element of Config.Tiers.
type Tier struct {
	// Dir is memory, a directory, or s3://BUCKET/PREFIX; empty is checkpoints in the output directory.
	Dir string `yaml:"dir"`
	// SaveEveryNSteps saves after every n steps; 0 saves only at the end, and is invalid in memory.
	SaveEveryNSteps int `yaml:"save_every_n_steps"`
	// Keep is not set in memory, which keeps the two newest.
	Keep
}

// Disk returns the configuration of the directory of the run's checkpoints, without Tiers.
func (c Config) Disk() Config {
	for _, t := range c.Tiers {
		if t.Dir != Memory {
			c.Dir, c.SaveEveryNSteps, c.Keep = t.Dir, t.SaveEveryNSteps, t.Keep
			break
		}
	}
	c.Tiers = nil
	return c
}

// Remote returns the last tier, to which checkpoints on disk are copied; false without one.
func (c Config) Remote() (Tier, bool) {
	c = c.WithoutMemory()
	if len(c.Tiers) < 2 {
		return Tier{}, false
	}
	return c.Tiers[1], true
}

// MemoryEveryNSteps returns the steps between checkpoints in memory; 0 for none.
func (c Config) MemoryEveryNSteps() int {
	if len(c.Tiers) > 0 && c.Tiers[0].Dir == Memory {
		return c.Tiers[0].SaveEveryNSteps
	}
	return 0
}

// WithoutMemory returns c without a tier in memory.
func (c Config) WithoutMemory() Config {
	if c.MemoryEveryNSteps() > 0 {
		c.Tiers = c.Tiers[1:]
	}
	return c
}

// Bytes is a size, in a configuration a number with its unit.
type Bytes = conf.Bytes

// Directory returns the checkpoint directory of a run that writes to outputDir.
func (c Config) Directory(outputDir string) string {
	if c = c.Disk(); c.Dir != "" {
		return c.Dir
	}
	return filepath.Join(outputDir, rundir.Checkpoints)
}

// Check refuses what depends on the run: a layout that a number of ranks cannot write where its checkpoints are, and a last
// tier that is not apart from them. outputDir may be empty if it is not chosen yet.
func (c Config) Check(outputDir string, ranks int) error {
	dir := c.Directory(outputDir)
	if outputDir != "" {
		if err := c.checkLast("checkpoint.", dir); err != nil {
			return err
		}
	}
	if !objectstore.IsURL(dir) || c.StateDictType != Full || ranks == 1 {
		return nil
	}
	return fault.Try(fault.At("checkpoint.state_dict_type", "is full: ranks cannot share a file in an object store (%s)", dir), "%s; trireme checkpoint export writes the weights to one file", fault.Set("checkpoint.state_dict_type", Sharded))
}

// The values of Config.StateDictType.
const (
	Sharded = "sharded"
	Full    = "full"
)

func (c Config) Validate() error {
	switch {
	case c.SaveEveryNSteps < 0:
		return fault.At("save_every_n_steps", "is %d: it must be 0 or more; 0 saves only at the end", c.SaveEveryNSteps)
	case !(c.SaveEveryNEpochs >= 0):
		return fault.At("save_every_n_epochs", "is %v: it must not be negative", c.SaveEveryNEpochs)
	case !(c.SaveEveryNMinutes >= 0):
		return fault.At("save_every_n_minutes", "is %v: it must not be negative", c.SaveEveryNMinutes)
	case c.StateDictType != "" && c.StateDictType != Sharded && c.StateDictType != Full:
		return fault.At("state_dict_type", "%w", conf.NotOneOf(c.StateDictType, Sharded, Full))
	case len(c.Tiers) > 0:
		return c.checkTiers()
	}
	if err := checkDir("dir", c.Dir); err != nil {
		return err
	}
	return c.check("")
}

// checkDir refuses what is neither a directory nor a prefix of an object store.
func checkDir(key, dir string) error {
	if objectstore.IsURL(dir) {
		return nil
	}
	err := rundir.CheckPath(key, dir)
	if err != nil && !fault.HasTry(err) {
		return fault.Try(err, "a directory, or s3://BUCKET/PREFIX")
	}
	return err
}

func (c Config) checkTiers() error {
	key := c.first()
	switch {
	case c.Dir != "":
		key = "dir"
	case c.SaveEveryNSteps != 0:
		key = "save_every_n_steps"
	}
	if key != "" {
		return fault.At(key, "is set beside tiers: set it in the tier of the directory, or remove tiers")
	}
	var directories []string
	for i, t := range c.Tiers {
		at := fmt.Sprintf("tiers[%d]", i)
		if err := checkDir(at+".dir", t.Dir); err != nil {
			return err
		}
		if err := t.check(at + "."); err != nil {
			return err
		}
		switch {
		case t.SaveEveryNSteps < 0:
			return fault.At(at+".save_every_n_steps", "is %d: it must be 0 or more", t.SaveEveryNSteps)
		case t.Dir != Memory:
			directories = append(directories, t.Dir)
		case i > 0:
			return fault.At(at+".dir", "memory must be the first tier, once")
		case t.SaveEveryNSteps == 0:
			return fault.At(at+".save_every_n_steps", "is 0: checkpoints in memory need 1 or more")
		case t.first() != "":
			return fault.At(at+"."+t.first(), "is set: memory keeps the two newest; remove the key")
		}
	}
	switch n := len(directories); {
	case n < 1 || n > 2:
		return fault.At("tiers", "has %d directories: it needs one or two, for example {dir: checkpoints, save_every_n_steps: 100}", n)
	case n == 2 && (directories[0] != "" || directories[1] == ""):
		return c.checkLast("", directories[0])
	}
	return nil
}

// checkLast refuses a last tier that is the directory of the run's checkpoints, in it, or around it: each tier removes
// what interrupted saves left below its directory. prefix is that of the key.
func (c Config) checkLast(prefix, before string) error {
	t, ok := c.Remote()
	if !ok {
		return nil
	}
	key := fmt.Sprintf("%stiers[%d].dir", prefix, len(c.Tiers)-1)
	below, above := isInside(t.Dir, before), isInside(before, t.Dir)
	switch {
	case t.Dir == "" || below && above:
		return fault.At(key, "is %q: the last tier needs another directory than the one before", t.Dir)
	case below || above:
		return fault.Try(fault.At(key, "is %q, and the tier before %q: neither may be inside the other", t.Dir, before), "a directory beside it")
	}
	return nil
}

// isInside reports whether a path is a directory or in it.
func isInside(path, dir string) bool {
	switch {
	case objectstore.IsURL(path) != objectstore.IsURL(dir):
		return false
	case objectstore.IsURL(dir):
		return strings.HasPrefix(objectstore.Clean(path)+"/", objectstore.Clean(dir)+"/")
	}
	return rundir.IsInside(path, dir)
}
