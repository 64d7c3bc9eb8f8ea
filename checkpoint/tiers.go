package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// newest returns the newest valid checkpoint of the run, the same on all ranks, without those that failed to load.
// Only rank 0 has notices. An error that wraps ErrCorrupt is about the checkpoints.
func (s *Store) newest(ctx context.Context, failed []Candidate) (c choice, notices []string, err error) {
	if s.host != nil {
		return s.common(ctx, failed)
	}
	var mine resolved
	if s.ranks.Rank() == 0 {
		mine.Path, notices, err = latest(s.fs.within(ctx), s.dir, s.run, failed)
	}
	all, err := agree(ctx, s.ranks, mine, err)
	if err != nil || all[0].Path == "" {
		return choice{step: -1, seen: -1}, notices, err
	}
	at, _ := parseDir(filepath.Base(all[0].Path))
	return choice{all[0].Path, at.step, at.step}, notices, nil
}

// inHost is a checkpoint in the memory of a host.
type inHost struct {
	Step int    `json:"step"`
	Save string `json:"save"` // manifest.HostSave
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
		if f.Err == nil && owns(s.run, f) && !slices.ContainsFunc(failed, func(x Candidate) bool { return x.Step == f.Step }) {
			mine = append(mine, inHost{f.Step, f.hostSave})
		}
	}
	all, err := agree(ctx, s.ranks, mine, err)
	if err != nil {
		return c, nil, err
	}
	c = choice{step: -1, seen: -1}
	for _, its := range all {
		for _, x := range its {
			c.seen = max(c.seen, x.Step)
			if x.Step > c.step && !slices.ContainsFunc(all, func(its []inHost) bool { return !slices.Contains(its, x) }) {
				c.path, c.step = join(s.dir, stepDir(x.Step)), x.Step
			}
		}
	}
	if c.seen > c.step && s.ranks.Rank() == 0 {
		notices = append(notices, fmt.Sprintf("the checkpoint of step %d in memory is not in the memory of all hosts", c.seen))
	}
	return c, notices, nil
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
// A checkpoint that is damaged and a tier that cannot be read are skipped with a notice, for the next newest. The notices
// say how many steps are lost by that. It is an error if nothing can be used and a tier on disk has failed, and if a tier
// has a checkpoint of a newer format.
func ResumeNewest(ctx context.Context, tiers []*Store, items []Item) (ResumeResult, error) {
	failed := make([][]Candidate, len(tiers))
	var notices []string
	add := func(more ...string) {
		for _, n := range more {
			if !slices.Contains(notices, n) {
				notices = append(notices, n)
			}
		}
	}
	seen := -1
	for {
		best, from := choice{step: -1}, -1
		var failure error
		for i, s := range tiers {
			c, more, err := s.newest(ctx, failed[i])
			if add(more...); err != nil {
				var ofTier *rankError // of all ranks; others are of their communication
				if failure = err; !errors.As(err, &ofTier) || errors.Is(err, errNewer) {
					return ResumeResult{Notices: notices}, err
				}
				add(err.Error())
				continue
			}
			if seen = max(seen, c.seen); c.step > best.step {
				best, from = c, i
			}
		}
		if from < 0 {
			if seen > 0 && failure == nil && tiers[0].ranks.Rank() == 0 {
				add(fmt.Sprintf("no checkpoint can be used: all %d steps are lost", seen))
			}
			return ResumeResult{Notices: notices}, failure
		}
		s := tiers[from]
		meta, err := s.load(ctx, best.path, items, LoadOptions{Device: s.memory.device})
		if err == nil {
			if s.host != nil {
				s.good = best.step
			}
			for _, x := range tiers {
				if x.run == "" {
					x.run = meta.Run
				}
			}
			if lost := seen - best.step; lost > 0 && s.ranks.Rank() == 0 {
				add(fmt.Sprintf("using step %d instead of step %d: %d steps are lost and done again", best.step, seen, lost))
			}
			return ResumeResult{Path: best.path, Meta: meta, Notices: notices}, nil
		}
		if s.host == nil && !errors.Is(err, ErrCorrupt) || ctx.Err() != nil {
			return ResumeResult{Path: best.path, Meta: meta, Notices: notices}, err
		}
		failed[from] = append(failed[from], Candidate{Path: best.path, Step: best.step, Err: err})
		add(fmt.Sprintf("checkpoint %s cannot be used: %v", best.path, err))
	}
}
