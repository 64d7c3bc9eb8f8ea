package checkpoint

import (
	"context"
	"fmt"

	"trireme/fault"
)

// ResumeResult is the result of Resume. It is equal on all ranks except for Notices, which only
// rank 0 has.
type ResumeResult struct {
	Path    string // empty if there was nothing to resume from; with an error, the checkpoint that failed to load
	Meta    Meta
	Notices []string // one line per newer checkpoint that could not be used, and one of the steps that are lost by that
}

// resolved is rank 0's choice.
type resolved struct {
	Path string `json:"path"`
	Step int    `json:"step"`
}

// Load fills the items of every rank from the checkpoint at path, with Resume's conditions on items.
// All ranks call it, and fail if any fails.
func (s *Store) Load(ctx context.Context, path string, items []Item) error {
	_, err := s.load(ctx, path, items, LoadOptions{Device: s.memory.device})
	return err
}

// Resume finds the checkpoint for the setting resume (none, auto or a directory) and fills the
// items of every rank. With "auto", a damaged checkpoint is skipped with a notice and the one
// before it is used. Together, the ranks' items must cover all tensors of the checkpoint and no
// others. All ranks return the same result.
func (s *Store) Resume(ctx context.Context, resume string, items []Item, o LoadOptions) (r ResumeResult, err error) {
	if o.Device == nil {
		o.Device = s.memory.device
	}
	if resume == "auto" {
		return resumeNewest(ctx, []*Store{s}, items, o)
	}
	var found resolved
	if s.ranks.Rank() == 0 {
		found.Path, r.Notices, err = resolve(ctx, s.fs, s.dir, resume)
	}
	all, err := agree(ctx, s.ranks, found, err)
	if err != nil || all[0].Path == "" {
		return r, err
	}
	r.Path = all[0].Path
	r.Meta, err = s.load(ctx, r.Path, items, o)
	return r, err
}

// load fills this rank's items from the checkpoint at path. It fails on all ranks if it fails on
// any. It returns the metadata even with an error, if it was read.
func (s *Store) load(ctx context.Context, path string, items []Item, o LoadOptions) (Meta, error) {
	s.memory.sync()
	keys := make([]string, len(items))
	for i, it := range items {
		keys[i] = key(it.Kind, it.Name)
	}
	var c *Checkpoint
	fs, err := storageOf(s.fs, s.dir, path)
	if err == nil {
		c, err = open(fs.within(ctx), path)
	}
	if err == nil {
		defer c.Close()
	}
	world, err := agree(ctx, s.ranks, keys, err)
	if err != nil {
		return Meta{}, err
	}
	if err = c.wantedByAll(world); err == nil {
		err = c.Load(ctx, items, o)
	}
	_, err = agree(ctx, s.ranks, struct{}{}, err)
	return c.Meta(), err
}

// wantedByAll returns an error if no rank has an item for a tensor of the checkpoint.
func (c *Checkpoint) wantedByAll(world [][]string) error {
	wanted := map[string]bool{}
	for _, keys := range world {
		for _, k := range keys {
			wanted[k] = true
		}
	}
	var extra []string
	for _, t := range c.m.Tensors {
		if !wanted[t.key()] {
			extra = append(extra, t.key())
		}
	}
	if len(extra) > 0 {
		return fault.Try(fmt.Errorf("checkpoint: %s has %d tensors that this run lacks, for example %s", c.dir, len(extra), extra[0]), "the configuration it was saved with")
	}
	return nil
}
