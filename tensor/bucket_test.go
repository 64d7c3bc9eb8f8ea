package tensor_test

import (
	"testing"

	"trireme/internal/backend/meta"
	"trireme/tensor"
)

// static is a backend of static shapes.
type static struct{ tensor.Memory }

func (static) Static() bool { return true }

// TestBucket: a bucket is no shorter than what it stands for and at most half as long again, beyond
// the first; there are few; and only backends of static shapes ask for them.
func TestBucket(t *testing.T) {
	b := static{meta.New()}
	for _, most := range []int{1, 7, 16, 100, 5000} {
		lengths := map[int]bool{}
		for n := range most + 1 {
			got := tensor.Bucket(b, n, most)
			if got < n || got > most || got > max(16, n+n/2) {
				t.Fatalf("%d of %d rows are given %d", n, most, got)
			}
			if again := tensor.Bucket(b, got, most); again != got {
				t.Fatalf("a bucket of %d is given %d", got, again)
			}
			lengths[got] = true
		}
		if len(lengths) > 19 {
			t.Errorf("up to %d rows there are %d lengths", most, len(lengths))
		}
	}
	if got := tensor.Bucket(meta.New(), 17, 100); got != 17 {
		t.Errorf("17 rows are given %d where shapes may be any", got)
	}
}
