package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"trireme/tensor"
)

// Memory is the Dir of a tier in the memory of the hosts.
const Memory = "memory"

// NewMemoryStore returns the Store of a run in the memory of the hosts. memory is the unnamed file of this host, which
// its launcher made and its ranks share. leader is the first rank of this host; those of a host are consecutive. Each
// host has what its ranks hold of the state, once, as checkpoints of its own. A save is good when all hosts have committed
// it. Until the next one is good, the one before stays; older ones are deleted before a save begins. Close frees it.
func NewMemoryStore(memory *os.File, run string, leader int, ranks ProcessGroup, device tensor.Memory) (*Store, error) {
	host, err := openHostMemory(memory)
	if err != nil {
		return nil, err
	}
	s, err := NewStore("", run, Config{Dir: Memory}, ranks, device)
	if err != nil {
		return nil, alsoFailed(err, host.Close())
	}
	s.fs, s.leader, s.host = renaming{host}, leader, host
	return s, nil
}

// Close frees a Store. Its checkpoints stay.
func (s *Store) Close() error {
	if s.host == nil {
		return nil
	}
	return s.host.Close()
}

// removeAllBut deletes all checkpoints except that of a step.
func (s *Store) removeAllBut(step int) error {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil && !errors.Is(err, errNotExist) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, name := range names {
		if at, ok := parseDir(name); ok && at.step != step {
			if err := s.fs.remove(s.dir, join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// choice is a checkpoint of a tier; path "" is none.
type choice struct {
	path string
	step int
	seen int // the newest step that was found, good or not; -1 for none
}

var noChoice = choice{step: -1, seen: -1}

// newest returns the newest valid checkpoint of the run, the same on all ranks, without those that failed to load.
// Only rank 0 has notices and the newest step that was found.
func (s *Store) newest(ctx context.Context, failed []Candidate) (c choice, notices []string, err error) {
	if s.host != nil {
		return s.common(ctx, failed)
	}
	c = noChoice
	if s.ranks.Rank() == 0 {
		c, notices, err = newestIn(s.fs.within(ctx), s.dir, s.run, failed)
	}
	all, err := agree(ctx, s.ranks, resolved{c.path, c.step}, err)
	if err == nil {
		c.path, c.step = all[0].Path, all[0].Step
	}
	return c, notices, err
}

// inHost is a checkpoint in the memory of a host.
type inHost struct {
	Step int    `json:"step"`
	Save string `json:"save"` // manifest.HostSave
	Err  string `json:"err,omitzero"`
}

// common returns the newest checkpoint that all hosts have in memory, of the same save: a host that was cut off and comes
// back may have another one of that step.
func (s *Store) common(ctx context.Context, failed []Candidate) (c choice, notices []string, err error) {
	found, err := list(s.fs, s.dir)
	var mine []inHost // newest first
	for _, f := range found {
		if err == nil && errors.Is(f.Err, errNewer) {
			err = f.newer()
		}
		if owns(s.run, f) && !slices.ContainsFunc(failed, func(x Candidate) bool { return x.Step == f.Step }) {
			x := inHost{Step: f.Step, Save: f.hostSave}
			if f.Err != nil {
				x.Err = f.Err.Error()
			}
			mine = append(mine, x)
		}
	}
	c = noChoice
	all, err := agree(ctx, s.ranks, mine, err)
	if err != nil {
		return c, nil, err
	}
	damaged := map[int]string{} // by step
	for rank, its := range all {
		for _, x := range its {
			c.seen = max(c.seen, x.Step)
			switch {
			case x.Err != "" && damaged[x.Step] == "":
				damaged[x.Step] = fmt.Sprintf("is incomplete (%s) in that of rank %d", x.Err, rank)
			case x.Err == "" && x.Step > c.step && !slices.ContainsFunc(all, func(its []inHost) bool { return !slices.Contains(its, x) }):
				c.path, c.step = join(s.dir, stepDir(x.Step)), x.Step
			}
		}
	}
	if c.seen > c.step && s.ranks.Rank() == 0 {
		notices = append(notices, fmt.Sprintf("the checkpoint of step %d in memory %s", c.seen, cmp.Or(damaged[c.seen], "is not in the memory of all hosts")))
	}
	return c, notices, nil
}

// Newest returns the path and the step of the newest valid checkpoint of the run up to a step; "" and 0 if there is none. One
// rank calls it, without the others.
func (s *Store) Newest(ctx context.Context, upTo int) (path string, step int, err error) {
	found, err := list(s.fs.within(ctx), s.dir)
	if err != nil {
		return "", 0, err
	}
	for _, f := range found {
		if f.Err == nil && f.Step <= upTo && owns(s.run, f) {
			return f.Path, f.Step, nil
		}
	}
	return "", 0, nil
}

// StepPath returns the path of the valid checkpoint of a step in the first of several tiers that has one; "" if none has.
// A tier that cannot be read is skipped if another one has it. All ranks call it and return the same.
func StepPath(ctx context.Context, tiers []*Store, step int) (string, error) {
	var path string
	var failure error
	for _, s := range tiers {
		if s.ranks.Rank() != 0 || path != "" {
			continue
		}
		var err error
		if path, err = atStep(s.fs.within(ctx), s.dir, step); err != nil {
			failure = alsoFailed(failure, err)
		}
	}
	if path != "" {
		failure = nil
	}
	all, err := agree(ctx, tiers[0].ranks, path, failure)
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// ResumeNewest is Resume with "auto" from the newest checkpoint of several tiers, the first of those with the same step.
// A checkpoint that is damaged and a tier that cannot be read are skipped with a notice, for the next newest. A last notice
// says how many steps are lost by that. It is an error if nothing can be used and a tier has failed, and if a tier has a
// checkpoint of a newer format.
func ResumeNewest(ctx context.Context, tiers []*Store, items []Item) (ResumeResult, error) {
	return resumeNewest(ctx, tiers, items, LoadOptions{Device: tiers[0].memory.device})
}

func resumeNewest(ctx context.Context, tiers []*Store, items []Item, o LoadOptions) (r ResumeResult, err error) {
	failed := make([][]Candidate, len(tiers)) // checkpoints that did not load
	failures := make([]error, len(tiers))     // of tiers
	seen := -1
	note := func(more ...string) {
		for _, n := range more {
			if !slices.Contains(r.Notices, n) {
				r.Notices = append(r.Notices, n)
			}
		}
	}
	for {
		best, from := noChoice, -1
		for i, s := range tiers {
			if failures[i] != nil {
				continue
			}
			c, more, err := s.newest(ctx, failed[i])
			note(more...)
			seen = max(seen, c.seen)
			var ofTier *rankError // of all ranks; others are of their communication
			switch {
			case err == nil:
			case !errors.As(err, &ofTier) || errors.Is(err, errNewer):
				return r, err
			default:
				failures[i] = err
				continue
			}
			if c.step > best.step {
				best, from = c, i
			}
		}
		if from < 0 {
			return nothing(r, tiers[0].ranks.Rank(), seen, failures)
		}
		s := tiers[from]
		r.Path = best.path
		if r.Meta, err = s.load(ctx, best.path, items, o); err == nil {
			for _, err := range failures {
				if err != nil {
					note(err.Error())
				}
			}
			if seen > best.step && s.ranks.Rank() == 0 {
				note(fmt.Sprintf("using step %d instead of step %d: %s lost and done again", best.step, seen, stepsAre(seen-best.step)))
			}
			if s.host != nil {
				s.good = best.step
			}
			for _, x := range tiers {
				if x.run == "" {
					x.run = r.Meta.Run
				}
			}
			return r, nil
		}
		switch {
		case ctx.Err() != nil:
			return r, err
		case s.host != nil || errors.Is(err, ErrCorrupt):
			failed[from] = append(failed[from], Candidate{Path: best.path, Step: best.step, Err: err})
			note(fmt.Sprintf("checkpoint %s cannot be used: %v", best.path, err))
		case unavailable(err) && len(tiers) > 1:
			failures[from] = err
		default:
			return r, err
		}
	}
}

// nothing is the result if no tier has a checkpoint to resume from.
func nothing(r ResumeResult, rank, seen int, failures []error) (ResumeResult, error) {
	var err error
	for _, its := range failures {
		err = alsoFailed(err, its)
	}
	if err == nil {
		r.Path = ""
		if seen > 0 && rank == 0 {
			r.Notices = append(r.Notices, fmt.Sprintf("no checkpoint can be used: %s lost", stepsAre(seen)))
		}
	}
	return r, err
}

func stepsAre(n int) string {
	if n == 1 {
		return "1 step is"
	}
	return fmt.Sprintf("%d steps are", n)
}
