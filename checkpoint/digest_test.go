package checkpoint

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/tensor"
)

// TestStateDigest compares digests of one truth, saved by several ranks in random boxes and both layouts, with the hash of
// the truth's bytes. One changed bit changes the digest.
func TestStateDigest(t *testing.T) {
	tr := newTruth(7)
	order := []int{}
	for i := range tr.tensors {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := tr.tensors[a], tr.tensors[b]
		return strings.Compare(x.Kind+" "+x.Name, y.Kind+" "+y.Name)
	})
	h := sha256.New()
	for _, i := range order {
		x := tr.tensors[i]
		fmt.Fprintf(h, "%q %q %v %v\n", x.Kind, x.Name, x.DType, []int(x.Shape))
		h.Write(tr.bytes(i, tr.all(i)))
	}
	want := fmt.Sprintf("%x", h.Sum(nil))
	digest := func(dir string) string {
		t.Helper()
		c, err := Open(filepath.Join(dir, "checkpoints", "step-1"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		sum, err := c.StateDigest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sum)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for ranks := 1; ranks < 6; ranks++ {
		dir := t.TempDir()
		have := tr.split(ranks, rng, true, false)
		for rank, err := range newWorld(ranks).run(func(m member) error {
			_, err := testStore(t, m, nil, dir, Config{StateDictType: []string{Sharded, Full}[ranks%2]}).Save(t.Context(), tr.meta(1), have[m.rank])
			return err
		}) {
			if err != nil {
				t.Fatalf("rank %d: %v", rank, err)
			}
		}
		if got := digest(dir); got != want {
			t.Errorf("%d ranks: %s, not %s", ranks, got, want)
		}
	}
	dir, items := t.TempDir(), tr.whole(false)
	tensor.HostBytes(items[len(items)-1].Data)[3] ^= 1
	if _, err := testStore(t, SingleProcess{}, nil, dir, Config{}).Save(t.Context(), tr.meta(1), items); err != nil {
		t.Fatal(err)
	}
	if digest(dir) == want {
		t.Error("a changed bit has the same digest")
	}
}
