package tensor_test

import (
	"testing"

	"trireme/internal/backend/meta"
	"trireme/tensor"
)

// static is a backend with static shapes.
type static struct{ tensor.Memory }

func (static) Static() bool { return true }

// TestBucket checks the size and number of buckets, and that only static backends use them.
func TestBucket(t *testing.T) {
	b := static{meta.New()}
	for _, most := range []int{1, 7, 16, 100, 5000} {
		lengths := map[int]bool{}
		for n := range most + 1 {
			got := tensor.Bucket(b, n, most)
			if got < n || got > most || got > max(16, n+n/2) {
				t.Fatalf("%d of %d rows: bucket %d", n, most, got)
			}
			if again := tensor.Bucket(b, got, most); again != got {
				t.Fatalf("bucket %d is rounded to %d", got, again)
			}
			lengths[got] = true
		}
		if len(lengths) > 19 {
			t.Errorf("%d rows or fewer have %d buckets", most, len(lengths))
		}
	}
	if got := tensor.Bucket(meta.New(), 17, 100); got != 17 {
		t.Errorf("dynamic shapes: 17 rows are rounded to %d", got)
	}
}
