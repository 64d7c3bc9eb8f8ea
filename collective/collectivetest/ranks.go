package collectivetest

import (
	"sync"
	"testing"

	"trireme/collective"
)

// Ranks runs f concurrently as each of n ranks of this process and closes their worlds. An error of one
// rank aborts the others and fails the test.
func Ranks(t testing.TB, n int, f func(w collective.World) error) {
	t.Helper()
	worlds, err := collective.NewLocal(n, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, w := range worlds {
		wg.Go(func() {
			if err := f(w); err != nil {
				t.Errorf("rank %d of %d: %v", w.Rank(), n, err)
				w.Abort(err)
			}
		})
	}
	wg.Wait()
	for _, w := range worlds {
		if err := w.Close(); err != nil {
			t.Errorf("rank %d of %d: close: %v", w.Rank(), n, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}
