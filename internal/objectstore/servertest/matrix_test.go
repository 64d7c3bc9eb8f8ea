package servertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"trireme/checkpoint"
	"trireme/collective/collectivetest"
	"trireme/tensor"
)

// ranks calls f on n ranks and returns their errors, joined.
func ranks(n int, f func(g *collectivetest.RankBootstrap) error) error {
	all := collectivetest.NewBootstrap(n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() { errs[rank] = f(all.Rank(rank)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// part is the part of rank of n in the state of a step, of 1200 elements.
func part(rank, n, step int, empty bool) []checkpoint.Item {
	items, b := state(1200, step)
	if empty {
		clear(b)
	}
	it := items[0]
	size := 1200 / n
	it.Box, it.Data = it.Box.Slice(0, rank*size, (rank+1)*size), it.Data.Flat(rank*size, (rank+1)*size)
	return []checkpoint.Item{it}
}

func groupStore(t *testing.T, dir string, g checkpoint.ProcessGroup) *checkpoint.Store {
	s, err := checkpoint.NewStore("", "a-run", checkpoint.Config{Dir: dir}, g, nil)
	if err != nil {
		t.Error(err)
	}
	return s
}

func save(t *testing.T, dir string, n, step int) {
	t.Helper()
	if err := ranks(n, func(g *collectivetest.RankBootstrap) error {
		_, err := groupStore(t, dir, g).Save(t.Context(), checkpoint.Meta{Step: step}, part(g.Rank(), n, step, false))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// load resumes with n ranks, and returns the step if all have its bits.
func load(t *testing.T, dir string, n int) (step int, err error) {
	var mu sync.Mutex
	err = ranks(n, func(g *collectivetest.RankBootstrap) error {
		items := part(g.Rank(), n, 0, true)
		r, err := groupStore(t, dir, g).Resume(t.Context(), "auto", items, checkpoint.LoadOptions{})
		if err != nil {
			return err
		}
		mu.Lock()
		step = r.Meta.Step
		mu.Unlock()
		if want := part(g.Rank(), n, r.Meta.Step, false); string(tensor.HostBytes(items[0].Data)) != string(tensor.HostBytes(want[0].Data)) {
			return fmt.Errorf("rank %d of %d has other bits than step %d", g.Rank(), n, r.Meta.Step)
		}
		return nil
	})
	return step, err
}

// TestMatrix: 1 to 4 ranks load the checkpoints of 1 to 4 ranks on the store.
func TestMatrix(t *testing.T) {
	url, _ := serve(t)
	environment(t, url)
	for from := 1; from <= 4; from++ {
		dir := fmt.Sprintf("s3://%s/by-%d", bucket, from)
		save(t, dir, from, from)
		for to := 1; to <= 4; to++ {
			if step, err := load(t, dir, to); err != nil || step != from {
				t.Errorf("saved by %d, loaded by %d ranks: step %d, %v", from, to, step, err)
			}
		}
	}
}

// TestFlips: with a changed byte in any file of the newest checkpoint, as the store has it on its disk, the one before is
// loaded.
func TestFlips(t *testing.T) {
	url, root := serve(t)
	environment(t, url)
	dir := fmt.Sprintf("s3://%s/run", bucket)
	save(t, dir, 2, 1)
	save(t, dir, 2, 2)
	flips := 0
	err := filepath.WalkDir(filepath.Join(root, bucket, "run"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(filepath.Base(filepath.Dir(path)), "step-2-") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, at := range []int{0, len(b) / 3, len(b) / 2, len(b) - 1} {
			changed := append([]byte(nil), b...)
			changed[at] ^= 0x20
			if err := os.WriteFile(path, changed, 0o644); err != nil {
				return err
			}
			if step, err := load(t, dir, 2); err != nil || step != 1 {
				t.Errorf("byte %d of %s: step %d, %v", at, filepath.Base(path), step, err)
			}
			flips++
		}
		return os.WriteFile(path, b, 0o644)
	})
	if err != nil || flips != 4*4 {
		t.Fatal(flips, err)
	}
	if step, err := load(t, dir, 2); err != nil || step != 2 {
		t.Errorf("without a change: step %d, %v", step, err)
	}
}
