package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"trireme/checkpoint"
	"trireme/data"
	"trireme/fault"
	"trireme/internal/conf"
	"trireme/internal/objectstore"
)

// resume loads a checkpoint if the configuration asks for one and it exists. It returns notes for the
// user.
func (r *Run) resume(ctx context.Context) (notes []string, err error) {
	var got checkpoint.ResumeResult
	tiers := r.tiers()
	switch {
	case len(tiers) > 1 && (r.deps.Restart > 0 || r.Config.Resume == "auto"):
		got, err = checkpoint.ResumeNewest(ctx, tiers, r.engine.State())
	case r.deps.Restart > 0:
		got, err = r.store.Resume(ctx, "auto", r.engine.State(), checkpoint.LoadOptions{})
	}
	if skipped := got.Notices; err == nil && got.Path == "" {
		got, err = r.store.Resume(ctx, r.Config.Resume, r.engine.State(), checkpoint.LoadOptions{})
		got.Notices = slices.Concat(skipped, got.Notices)
	}
	if err == nil && got.Path == "" && r.Config.Resume == "auto" {
		return append(got.Notices, fmt.Sprintf("no checkpoint in %s, starting at step 0", r.store.Dir())), nil
	}
	if err != nil {
		return got.Notices, r.explainState(got.Meta, err)
	}
	if got.Path == "" {
		return got.Notices, nil
	}
	var p progress
	if err := json.Unmarshal(got.Meta.State, &p); err != nil {
		return nil, fault.Try(fmt.Errorf("train: %s: invalid training state: %w", got.Path, err), "%s of an older one", fault.Set("resume", "DIR"))
	}
	changed, err := r.checkInputs(got.Path, p.Inputs, r.state.Inputs)
	if err != nil {
		return nil, err
	}
	p.Inputs = r.state.Inputs
	if p.Data != (data.State{}) { // that of a converted checkpoint: start with the first row
		if err := r.loader.Restore(p.Data); err != nil {
			return nil, fmt.Errorf("train: %s: %w", got.Path, err)
		}
	}
	if p.Recomputing = p.Recomputing && r.Config.Recompute.delayed(); p.Recomputing {
		r.Config.Recompute.Apply(r.model.Units())
	}
	notes = append(got.Notices, fmt.Sprintf("resuming from %s, saved by %s", got.Path, count(got.Meta.WorldSize, "rank")))
	if p.Best != nil {
		carried, err := r.carriesOver(ctx, got.Path, p.Best.Step)
		if err != nil {
			return nil, err
		}
		if !carried {
			notes = append(notes, fmt.Sprintf("the best evaluation of that run, after step %d, does not carry over to this run", p.Best.Step))
			p.Best = nil
		}
	}
	if r.state = p; p.Best != nil {
		r.protectBest()
	}
	return slices.Concat(notes, changed, otherMachine(p.Machine, r.Config.Device.Kind(r.backend)), r.changes(got.Meta, p)), nil
}

// tiers lists the tiers of checkpoints, the nearest first.
func (r *Run) tiers() []*checkpoint.Store {
	return slices.DeleteFunc([]*checkpoint.Store{r.memory, r.store, r.copies.to}, func(s *checkpoint.Store) bool { return s == nil })
}

// carriesOver reports whether the best evaluation, after a step, counts for a run that goes on from a path: its checkpoint
// is beside that, or, if that is in the last tier, in any tier. All ranks call it.
func (r *Run) carriesOver(ctx context.Context, path string, step int64) (bool, error) {
	switch from := objectstore.Dir(path); {
	case from == checkpoint.Memory, from == objectstore.Clean(r.store.Dir()):
		return true, nil
	case r.copies.to == nil || from != objectstore.Clean(r.copies.to.Dir()):
		return false, nil
	}
	kept, err := checkpoint.StepPath(ctx, r.keeping(), int(step))
	return kept != "", err
}

// otherMachine returns a note if a checkpoint was saved on a machine that rounds in another way. was is empty in
// checkpoints of older versions.
func otherMachine(was, now string) []string {
	if was == "" || was == now {
		return nil
	}
	return []string{fmt.Sprintf("changed: the machine, %s -> %s: the state is exact, but operations may round differently, so later steps may have other bits than without the break (device.instructions and device.float32_matmul select what a processor has)", was, now)}
}

// checkInputs compares the data and the tokenizer with those of the checkpoint at path. Differences are
// an error, or notes if data.allow_changed is true; of the evaluation set always a note. Fields missing
// from old checkpoints are not compared.
func (r *Run) checkInputs(path string, was, now data.Fingerprint) (notes []string, err error) {
	for _, in := range []struct{ what, key, was, now string }{
		{"tokenizer", "data.tokenizer", was.Tokenizer, now.Tokenizer},
		{"data", "data.path " + r.Config.Data.Path, was.Train, now.Train},
	} {
		switch {
		case in.was == "" || in.was == in.now:
		case !r.Config.Data.AllowChanged:
			return nil, fault.Try(fmt.Errorf("train: %s: the %s has changed since the save (%s: digest %.8s, was %.8s)", path, in.what, in.key, orNone(in.now), in.was), "the original %s, %s to continue anyway, or a new run", in.what, fault.Set("data.allow_changed", "true"))
		default:
			notes = append(notes, fmt.Sprintf("changed: %s (%s)", in.what, in.key))
		}
	}
	if was.Train != "" && was.Eval != now.Eval {
		notes = append(notes, "changed: the evaluation set; evaluations before and after are not comparable")
	}
	return notes, nil
}

func orNone(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest
}

// stateKeys are the keys that determine the training state.
var stateKeys = []string{"training.optimizer", "training.parameter_groups", "training.ema.decay", "model.freeze"}

// explainState adds to a checkpoint's load error the stateKeys that changed since it was saved.
func (r *Run) explainState(meta checkpoint.Meta, err error) error {
	if meta.Config == "" || r.deps.Resolved == "" || errors.Is(err, checkpoint.ErrCorrupt) {
		return err
	}
	was, _ := conf.Load(Default(), conf.Text(storedConfig, meta.Config))
	now, _ := conf.Load(Default(), conf.Text(storedConfig, r.deps.Resolved))
	var changed []string
	for _, c := range conf.Diff(was.Value, now.Value) {
		if within(c.Path, stateKeys) {
			changed = append(changed, fmt.Sprintf("%s %s -> %s", c.Path, orUnset(c.From), orUnset(c.To)))
		}
	}
	if len(changed) == 0 {
		return err
	}
	return fmt.Errorf("%w (changed since it was saved: %s)", err, strings.Join(changed, ", "))
}

func within(path string, keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return path == key || strings.HasPrefix(path, key+".") })
}

// ignoredKeys may differ without a note.
var ignoredKeys = []string{"name", "output_dir", "move_aside", "resume", "data.allow_changed"}

// changes lists differences between a checkpoint's configuration and this run's, one line each: keys,
// ranks, rows per step, and the learning rate.
func (r *Run) changes(meta checkpoint.Meta, p progress) (notes []string) {
	if meta.Config == "" || r.deps.Resolved == "" {
		return nil
	}
	// Keys that this version does not accept are not compared.
	was, _ := conf.Load(Default(), conf.Text(storedConfig, meta.Config))
	now, _ := conf.Load(Default(), conf.Text(storedConfig, r.deps.Resolved))
	add := func(what, from, to string) {
		notes = append(notes, fmt.Sprintf("changed: %s %s -> %s", what, from, to))
	}
	ranks := r.deps.World.Size()
	if meta.WorldSize != ranks {
		add("ranks", fmt.Sprint(meta.WorldSize), fmt.Sprint(ranks))
	}
	for _, c := range conf.Diff(was.Value, now.Value) {
		if !within(c.Path, ignoredKeys) {
			add(c.Path, orUnset(c.From), orUnset(c.To))
		}
	}
	before := was.Value.Training
	accum, err := before.Accumulation(meta.WorldSize)
	rows := int64(before.rows(accum, meta.WorldSize))
	if err == nil && rows != r.rows() {
		add("rows per step", fmt.Sprint(rows), fmt.Sprint(r.rows()))
	}
	steps := p.MaxSteps
	if steps == 0 {
		steps = before.MaxSteps
	}
	if steps > 0 && p.Step < int64(r.Config.Training.MaxSteps) {
		from, to := before.WithTotalSteps(steps).At(p.Updates), r.schedule.At(p.Updates)
		if from != to {
			add(fmt.Sprintf("learning rate of step %d:", p.Step+1), fmt.Sprintf("%.3g (schedule of %d steps)", from, steps), fmt.Sprintf("%.3g (schedule of %d steps)", to, r.Config.Training.MaxSteps))
		}
	}
	return notes
}

const storedConfig = "the checkpoint's configuration"

func orUnset(v string) string {
	if v == "" {
		return "unset"
	}
	return v
}
