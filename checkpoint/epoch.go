package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"trireme/fault"
	"trireme/internal/concurrent"
)

// Claim gives this world its epoch in the tiers of a run. It is later than that of every checkpoint that the run has there,
// and, by the number of restarts, than those of earlier starts of the job. From then on commit records carry it, and a save
// or a copy is refused if a tier has a checkpoint of a later epoch: ranks that were left over, on a host that was cut off,
// neither replace nor remove what the later world has saved. Without a claim nothing is refused. A tier that cannot be
// read is left out. All ranks call it, after they have resumed.
func Claim(ctx context.Context, tiers []*Store, restarts int) error {
	newest := 0
	for _, s := range tiers {
		if s.leads() {
			_, epoch, _ := newestEpoch(s.fs.within(ctx), s.dir, s.run, 0)
			newest = max(newest, epoch)
		}
	}
	all, err := agree(ctx, tiers[0].ranks, newest, nil)
	if err != nil {
		return err
	}
	for _, s := range tiers {
		s.epoch = slices.Max(all) + 1 + restarts
	}
	return nil
}

// errLater is wrapped by the error of a world that a later one has replaced.
var errLater = errors.New("a later start of the run saves there")

// checkEpoch refuses to save if the run has a checkpoint of a later epoch. Saves call it before they remove anything, and
// again before they commit.
func (s *Store) checkEpoch(fs fileStore) error {
	if s.epoch == 0 {
		return nil
	}
	path, epoch, err := newestEpoch(fs, s.dir, s.run, s.epoch)
	if err != nil || path == "" {
		return err
	}
	return fault.Try(fmt.Errorf("checkpoint: %s is of epoch %d of the run, this world is of epoch %d: %w", path, epoch, s.epoch, errLater), "end this one; the later one goes on")
}

// newestEpoch returns the largest epoch above a limit of the run's valid checkpoints in dir, and one that has it. It reads
// the commit records, and verifies only those above the limit.
func newestEpoch(fs fileStore, dir, run string, above int) (path string, epoch int, err error) {
	names, err := fs.ReadDir(dir)
	if err != nil && !errors.Is(err, errNotExist) {
		return "", 0, fmt.Errorf("checkpoint: %w", err)
	}
	epochs := make([]int, len(names))
	if err := concurrent.Each(filesAtOnce(fs), len(names), func(_, i int) error {
		if _, ok := parseDir(names[i]); !ok {
			return nil
		}
		commit, err := readAll(fs, join(dir, names[i], commitName), 4096)
		if unavailable(err) {
			return fmt.Errorf("checkpoint: %w", err)
		}
		epochs[i] = committedEpoch(commit) // one that cannot be read is not valid
		return nil
	}); err != nil {
		return "", 0, err
	}
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(epochs[b], epochs[a]) })
	for _, i := range order {
		if epochs[i] <= above {
			break
		}
		path := join(dir, names[i])
		m, err := verify(fs, path)
		if unavailable(err) {
			return "", 0, fmt.Errorf("checkpoint: %w", err)
		}
		if err == nil && owns(run, Candidate{Run: m.Run}) {
			return path, m.Epoch, nil
		}
	}
	return "", 0, nil
}
