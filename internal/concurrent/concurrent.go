// Package concurrent divides work on files and memory among the processors. Operations on tensors have the threads of
// their backend instead.
package concurrent

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Processors is the number of processors that this process uses.
func Processors() int { return runtime.GOMAXPROCS(0) }

// Each calls f(worker, i) for all i in [0, n), in ascending order of i, from up to workers goroutines that are
// numbered from 0. After an error no further calls begin. It returns when all calls have: the error with the
// lowest i, as a loop would. A panic of f continues in the caller.
func Each(workers, n int, f func(worker, i int) error) error {
	workers = min(workers, n)
	if workers <= 1 {
		for i := range n {
			if err := f(0, i); err != nil {
				return err
			}
		}
		return nil
	}
	var next atomic.Int64
	var mu sync.Mutex
	var first error
	var panicked any
	failed := n // lowest i with an error
	work := func(worker int) {
		defer func() {
			if p := recover(); p != nil {
				mu.Lock()
				defer mu.Unlock()
				panicked = p
				next.Store(int64(n))
			}
		}()
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			if err := f(worker, i); err != nil {
				mu.Lock()
				if i < failed {
					first, failed = err, i
				}
				mu.Unlock()
				next.Store(int64(n))
				return
			}
		}
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() { work(worker) })
	}
	all.Wait()
	if panicked != nil {
		panic(panicked)
	}
	return first
}
