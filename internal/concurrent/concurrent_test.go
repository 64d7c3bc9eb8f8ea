package concurrent

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

// Each call is made once, by one of the workers.
func TestEach(t *testing.T) {
	for _, c := range []struct{ workers, n int }{{1, 5}, {3, 0}, {3, 2}, {3, 1000}, {0, 4}} {
		calls := make([]atomic.Int32, c.n)
		err := Each(c.workers, c.n, func(worker, i int) error {
			if worker < 0 || worker >= max(1, c.workers) {
				t.Errorf("worker %d of %d", worker, c.workers)
			}
			calls[i].Add(1)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for i := range calls {
			if n := calls[i].Load(); n != 1 {
				t.Errorf("%d workers: call %d of %d was made %d times", c.workers, i, c.n, n)
			}
		}
	}
}

// The error is that of a loop, and few calls follow it.
func TestEachFails(t *testing.T) {
	for _, workers := range []int{1, 4} {
		var calls atomic.Int32
		err := Each(workers, 1<<20, func(_, i int) error {
			calls.Add(1)
			if i >= 100 {
				return fmt.Errorf("call %d", i)
			}
			return nil
		})
		if err == nil || err.Error() != "call 100" {
			t.Errorf("%d workers: %v", workers, err)
		}
		if n := calls.Load(); n > 100+int32(workers) {
			t.Errorf("%d workers: %d calls", workers, n)
		}
	}
}

func TestEachPanics(t *testing.T) {
	want := errors.New("a panic")
	defer func() {
		if p := recover(); p != want {
			t.Errorf("%v", p)
		}
	}()
	_ = Each(2, 100, func(_, i int) error {
		if i == 50 {
			panic(want)
		}
		return nil
	})
	t.Error("the panic is lost")
}
