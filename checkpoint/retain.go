package checkpoint

import (
	"context"
	"slices"
	"time"
)

// retention returns the rules of the configuration.
func (k Keep) retention() Retention {
	hours := min(k.KeepHours, 1e6)
	return Retention{Last: k.KeepLastN, Every: k.KeepEveryNSteps, Younger: time.Duration(hours * float64(time.Hour)), Bytes: int64(k.KeepSize)}
}

// retain deletes checkpoints of this run after a save, by the rules of the configuration. Ages count to the time of the
// newest one, so a run that was stopped for long keeps the same number. Invalid directories and other runs'
// checkpoints are neither counted nor deleted. If the one just saved is invalid, the valid one of the
// largest step is the newest: the last good checkpoint stays.
func (s *Store) retain(ctx context.Context, saved, best int) (notices []string) {
	rules := s.cfg.retention()
	if rules == (Retention{}) {
		return nil
	}
	fs := s.fs.within(ctx)
	found, err := list(fs, s.dir)
	if err != nil {
		return []string{err.Error()}
	}
	found = slices.DeleteFunc(found, func(f Candidate) bool { return f.Err != nil || !owns(s.run, f) })
	if i := slices.IndexFunc(found, func(f Candidate) bool { return f.Step == saved }); i > 0 {
		newest := found[i]
		found = slices.Insert(slices.Delete(found, i, i+1), 0, newest)
	}
	all := make([]Saved, len(found))
	for i, f := range found {
		all[i] = Saved{Step: f.Step, Bytes: f.Bytes, Protected: f.Step == best || int64(f.Step)+1 == s.copied.Load()}
		if !f.Saved.IsZero() {
			all[i].Age = found[0].Saved.Sub(f.Saved)
		}
	}
	for i, kept := range rules.Keep(all) {
		if kept {
			continue
		}
		if err := fs.remove(s.dir, found[i].Path); err != nil {
			notices = append(notices, err.Error())
		}
	}
	return notices
}
