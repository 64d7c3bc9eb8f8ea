package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"trireme/fault"
)

// ResumeResult says what Resume loaded, the same on all ranks but for Notices, which rank 0 has.
type ResumeResult struct {
	Path    string // empty: there was nothing to resume from; with an error, what could not be loaded
	Meta    Meta
	Notices []string // a line for each newer checkpoint that could not be used, and why
}

// resolved is what rank 0 found for all.
type resolved struct {
	Path string `json:"path"`
}

// Load fills the items of every rank from the checkpoint at path, as Resume does.
func (s *Store) Load(ctx context.Context, path string, items []Item) error {
	s.memory.sync()
	_, err := s.load(ctx, path, items, LoadOptions{Device: s.memory.device})
	return err
}

// Resume finds the checkpoint that the setting resume asks for (none, auto or a directory) and fills the
// items of every rank from it. Where it is "auto" and the newest turns out to be damaged,
// the one before it is taken, and a notice says so. The items of all ranks together must
// ask for every tensor of the checkpoint and nothing else: a run that goes on with a part
// of its state is another run. All ranks come to the same end.
func (s *Store) Resume(ctx context.Context, resume string, items []Item, o LoadOptions) (ResumeResult, error) {
	if o.Device == nil {
		o.Device = s.memory.device
	}
	s.memory.sync()
	var tried []Candidate
	var notices []string
	for {
		var found resolved
		var err error
		if s.ranks.Rank() == 0 {
			var more []string
			found.Path, more, err = s.resolve(resume, tried)
			notices = append(notices, more...)
		}
		all, err := agree(ctx, s.ranks, found, err)
		if err != nil {
			return ResumeResult{Notices: notices}, err
		}
		path := all[0].Path
		if path == "" {
			return ResumeResult{Notices: notices}, nil
		}
		meta, err := s.load(ctx, path, items, o)
		if err == nil {
			if resume == "auto" && s.run == "" {
				s.run = meta.Run
			}
			return ResumeResult{Path: path, Meta: meta, Notices: notices}, nil
		}
		if resume != "auto" || !errors.Is(err, ErrCorrupt) {
			return ResumeResult{Path: path, Meta: meta, Notices: notices}, err
		}
		tried = append(tried, Candidate{Path: path, Err: err})
		notices = append(notices, fmt.Sprintf("checkpoint %s cannot be used: %v", filepath.Base(path), err))
	}
}

func (s *Store) resolve(resume string, failed []Candidate) (path string, notices []string, err error) {
	if len(failed) > 0 {
		return latest(s.fs, s.dir, s.run, failed)
	}
	return resolve(s.fs, s.dir, s.run, resume)
}

// load fills this rank's items from the checkpoint at path, and agrees with the others that
// all could. With an error too it returns what the checkpoint holds besides tensors, if it was read.
func (s *Store) load(ctx context.Context, path string, items []Item, o LoadOptions) (Meta, error) {
	keys := make([]string, len(items))
	for i, it := range items {
		keys[i] = key(it.Kind, it.Name)
	}
	c, err := open(s.fs, path)
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

// wantedByAll refuses a checkpoint that holds what no rank asks for.
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
		return fault.Try(fmt.Errorf("checkpoint: %s holds %d tensors that this run does not have, %s among them", c.dir, len(extra), extra[0]), "the configuration it was saved with")
	}
	return nil
}
