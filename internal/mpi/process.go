package mpi

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Process is this process in the world of MPI. Its methods are safe for concurrent use.
type Process struct {
	Rank, Size int
	Library    string // its name and version

	lib       *library
	anyThread bool        // MPI accepts calls from any thread, one at a time
	work      chan func() // for the thread of MPI

	// Of the thread of MPI:
	active   []*Request
	requests []byte // the handles of active
	indices  []byte // results of MPI_Testsome
	slot     []byte // one handle
	awaited  int    // number of active requests that someone awaits
	err      error  // of MPI, which has failed
	ended    bool   // MPI_Finalize was called
}

var (
	joining sync.Mutex
	joined  *Process
	failed  error
)

// Join initializes MPI, at the first call. openMPI says whose mpirun started this process.
func Join(openMPI bool) (*Process, error) {
	joining.Lock()
	defer joining.Unlock()
	if joined == nil && failed == nil {
		p := &Process{work: make(chan func(), 256), slot: mapped(64)}
		begun := make(chan error)
		go p.run(openMPI, begun)
		if failed = <-begun; failed == nil {
			joined = p
		}
	}
	return joined, failed
}

// Joined returns the Process if this process has one.
func Joined() *Process {
	joining.Lock()
	defer joining.Unlock()
	return joined
}

// init runs on the thread of MPI. MPI libraries handle signals, such as segmentation faults, which Go's
// runtime must handle here: their handlers are replaced by those from before.
func (p *Process) init(openMPI bool) (err error) {
	handlers := signalHandlers()
	defer handlers.restore()
	if p.lib, err = load(openMPI); err != nil {
		return err
	}
	var done, provided int32
	if err := p.lib.call("MPI_Initialized", uintptr(unsafe.Pointer(&done))); err != nil {
		return err
	}
	const funneled, serialized = 1, 2
	if done == 0 {
		if err := p.lib.call("MPI_Init_thread", 0, 0, serialized, uintptr(unsafe.Pointer(&provided))); err != nil {
			return err
		}
		if provided < funneled {
			return fmt.Errorf("%s was built without threads (MPI_THREAD_SINGLE)", p.lib.version())
		}
	}
	p.anyThread = provided >= serialized
	p.Library = p.lib.version()
	if err := p.lib.call("MPI_Comm_set_errhandler", p.lib.world, p.lib.errorsReturn); err != nil {
		return err
	}
	var rank, size int32
	err = errors.Join(p.lib.call("MPI_Comm_rank", p.lib.world, uintptr(unsafe.Pointer(&rank))), p.lib.call("MPI_Comm_size", p.lib.world, uintptr(unsafe.Pointer(&size))))
	p.Rank, p.Size = int(rank), int(size)
	return err
}

// The pauses between polls. A timer of Go takes a millisecond at least, so short ones are naps of the thread,
// during which the goroutine does not notice new requests.
const (
	spin         = 50 * time.Microsecond // after the last event, without a pause
	napping      = 5 * time.Millisecond  // then by naps, if a request is awaited
	nap          = 20 * time.Microsecond
	awaitedPause = time.Millisecond
	idlePause    = 5 * time.Millisecond // if no request is awaited
)

// run is the goroutine that calls MPI. It stays on one thread if MPI needs that: goroutines that are not locked to
// a thread wake each other faster.
func (p *Process) run(openMPI bool, begun chan<- error) {
	runtime.LockOSThread()
	err := p.init(openMPI)
	if p.anyThread {
		runtime.UnlockOSThread()
	}
	begun <- err
	if err != nil {
		return
	}
	timer := time.NewTimer(0)
	for last := time.Now(); ; {
		event := p.doWork()
		if p.test() || event {
			last = time.Now()
			p.yield()
			continue
		}
		if len(p.active) == 0 {
			(<-p.work)()
			last = time.Now()
			continue
		}
		pause, since := idlePause, time.Since(last)
		switch {
		case p.awaited > 0 && since < spin:
			p.yield()
			continue
		case p.awaited > 0 && since < napping:
			sleepThread(nap)
			continue
		case p.awaited > 0:
			pause = awaitedPause
		}
		timer.Reset(pause)
		select {
		case f := <-p.work:
			f()
			last = time.Now()
		case <-timer.C:
		}
	}
}

// yield lets other goroutines run, where that costs no change of threads.
func (p *Process) yield() {
	if p.anyThread {
		runtime.Gosched()
	}
}

// doWork runs functions for the thread of MPI, and reports whether there were any.
func (p *Process) doWork() bool {
	for n := 0; ; n++ {
		select {
		case f := <-p.work:
			f()
		default:
			return n > 0
		}
	}
}

// do runs f on the thread of MPI, and waits for it.
func (p *Process) do(f func()) {
	done := make(chan struct{})
	p.work <- func() { f(); close(done) }
	<-done
}

// Finalize ends MPI on this process, after its sends are done, or gives up after d. mpirun takes a process
// that exits without it for a failed one. Later requests fail.
func (p *Process) Finalize(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	done := make(chan error, 1)
	var step func()
	step = func() {
		switch {
		case ctx.Err() != nil:
			done <- ctx.Err()
		case p.ended:
			done <- nil
		case p.err == nil && p.sending():
			time.AfterFunc(time.Millisecond, func() { p.work <- step })
		default:
			p.ended = true
			p.fail(errors.New("MPI is finalized"))
			done <- p.lib.call("MPI_Finalize")
		}
	}
	p.work <- step
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("MPI_Finalize: not done after %v", d)
	}
}

func (p *Process) sending() bool {
	for _, r := range p.active {
		if r.send {
			return true
		}
	}
	return false
}
