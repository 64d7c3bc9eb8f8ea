package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"trireme/internal/kernel"
)

// pool runs the tiles of an operation on the calling goroutine and threads-1 workers.
type pool struct {
	threads int
	jobs    chan *job
	done    sync.WaitGroup
}

type job struct {
	f       func(tile, thread int)
	tiles   int
	threads int
	taken   kernel.Shares // tiles
	running atomic.Int64  // workers that are not done
	wg      sync.WaitGroup
	panic   atomic.Pointer[any]
}

func newPool(threads int) *pool {
	p := &pool{threads: threads, jobs: make(chan *job, threads)}
	for i := 1; i < threads; i++ {
		p.done.Add(1)
		go func() {
			defer p.done.Done()
			for j := p.take(); j != nil; j = p.take() {
				j.work(i)
				j.running.Add(-1)
				j.wg.Done()
			}
		}()
	}
	return p
}

// spins is the number of looks before a thread sleeps: 0.1 to 0.2 ms, the usual time between the first and the last thread that
// end a product. Waking a thread takes as long.
const spins = 1 << 15

// take waits for a job, and returns nil when the pool is closed.
func (p *pool) take() *job {
	for i := range spins {
		select {
		case j := <-p.jobs:
			return j
		default:
		}
		if i&63 == 63 {
			runtime.Gosched()
		}
	}
	return <-p.jobs
}

// wait waits for the workers of a job.
func (j *job) wait() {
	for i := range spins {
		if j.running.Load() == 0 {
			return
		}
		if i&63 == 63 {
			runtime.Gosched()
		}
	}
	j.wg.Wait()
}

// run calls f for each tile in [0, tiles), in any order and on any thread. thread, in [0,
// p.threads), is unique among concurrent calls of one run, to index scratch. Threads take tiles one
// by one, which balances load, those of their shares first (kernel.Shares).
func (p *pool) run(tiles int, f func(tile, thread int)) { p.start(tiles, p.threads, f) }

// inOrder is run for tiles that differ in their time, the longest first: threads take them in order.
func (p *pool) inOrder(tiles int, f func(tile, thread int)) { p.start(tiles, 1, f) }

func (p *pool) start(tiles, shares int, f func(tile, thread int)) {
	if p.threads == 1 || tiles <= 1 {
		for t := range tiles {
			f(t, 0)
		}
		return
	}
	j := &job{f: f, tiles: tiles, threads: p.threads, taken: kernel.NewShares(shares)}
	others := min(p.threads, tiles) - 1
	j.running.Store(int64(others))
	j.wg.Add(others)
	for range others {
		p.jobs <- j
	}
	j.work(0)
	j.wait()
	if e := j.panic.Load(); e != nil {
		panic(*e)
	}
}

func (j *job) work(thread int) {
	defer func() {
		if e := recover(); e != nil {
			j.panic.CompareAndSwap(nil, &e)
		}
	}()
	for t, ok := j.taken.Take(j.tiles, 0, thread, j.threads); ok; t, ok = j.taken.Take(j.tiles, 0, thread, j.threads) {
		j.f(t, thread)
	}
}

func (p *pool) close() {
	close(p.jobs)
	p.done.Wait()
}
