package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"trireme/collective"
	"trireme/tensor"
)

type transport struct {
	rank    int
	ranks   []int  // connected, the caller's too
	peers   []peer // by rank in the world; the others are empty
	arena   *tensor.Arena
	failure *collective.FailureOnce
	failed  func(*collective.Failure) // reports a lost rank

	stop     atomic.Bool
	stopFD   int // eventfd that ends watchProcesses
	wg       sync.WaitGroup
	failOnce sync.Once // guards the caller's failure record
}

type peer struct {
	control control
	mu      sync.Mutex
	arena   []byte // nil until it is mapped
	size    uint64 // of the arena, in bytes
	fd      int    // its memory; 0: none
	pid     int
	pidfd   int
	watched bool // pidfd is open
}

var _ collective.Transport = (*transport)(nil)

func (t *transport) watch() error {
	var err error
	if t.stopFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("watch the other ranks: %w", err)
	}
	t.wg.Add(2)
	go t.watchProcesses()
	go t.watchFailures()
	return nil
}

func (t *transport) watchProcesses() {
	defer t.wg.Done()
	fds := []unix.PollFd{{Fd: int32(t.stopFD), Events: unix.POLLIN}}
	var ranks []int
	for r := range t.peers {
		if p := &t.peers[r]; p.watched {
			fds = append(fds, unix.PollFd{Fd: int32(p.pidfd), Events: unix.POLLIN})
			ranks = append(ranks, r)
		}
	}
	for {
		_, err := unix.Poll(fds, -1)
		if t.stop.Load() {
			return
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // operations still have their time-out
		}
		for i := range ranks {
			if fds[i+1].Revents == 0 {
				continue
			}
			fds[i+1].Fd = -1 // ignored by poll
			r := ranks[i]
			if t.Closed(r) {
				continue
			}
			f := t.peers[r].control.head().failure()
			if f == nil {
				f = &collective.Failure{Kind: collective.ErrPeerLost, Rank: t.rank, Lost: []int{r}, Text: fmt.Sprintf(
					"%s is lost: its process ended", t.Describe(r))}
			}
			t.failed(f)
		}
	}
}

// fail records a failure that this rank has detected, and sends it.
func (t *transport) fail(f *collective.Failure) {
	if t.failure.Set(f) {
		t.SendFailure(f)
	}
}

func (t *transport) watchFailures() {
	defer t.wg.Done()
	bell := &t.peers[t.rank].control.head().Bell
	for !t.stop.Load() {
		seen := atomic.LoadUint32(bell)
		for _, r := range t.ranks {
			if f := t.peers[r].control.head().failure(); f != nil && r != t.rank {
				t.failure.Set(f)
			}
		}
		futexWait(bell, seen, time.Second)
	}
}

func (t *transport) Arena() *tensor.Arena             { return t.arena }
func (t *transport) Failure() *collective.FailureOnce { return t.failure }

func (t *transport) Describe(rank int) string {
	if rank == t.rank {
		return fmt.Sprintf("rank %d", rank)
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("rank %d (pid %d on %s)", rank, t.peers[rank].pid, host)
}

func (t *transport) Closed(rank int) bool {
	return atomic.LoadUint32(&t.peers[rank].control.head().Closed) != 0
}

func (t *transport) SendFailure(f *collective.Failure) {
	t.failOnce.Do(func() { t.peers[t.rank].control.head().setFailure(f) })
	for _, r := range t.ranks {
		bell := &t.peers[r].control.head().Bell
		atomic.AddUint32(bell, 1)
		futexWake(bell)
	}
}

func (t *transport) Close() error {
	h := t.peers[t.rank].control.head()
	atomic.StoreUint32(&h.Closed, 1)
	t.stop.Store(true)
	atomic.AddUint32(&h.Bell, 1)
	futexWake(&h.Bell)
	_, err := unix.Write(t.stopFD, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	t.wg.Wait()
	return errors.Join(err, unix.Close(t.stopFD), t.unmap())
}

func (t *transport) unmap() error {
	var errs []error
	for r := range t.peers {
		p := &t.peers[r]
		if p.watched {
			errs = append(errs, unix.Close(p.pidfd))
		}
		for _, m := range [][]byte{p.control.mem, p.arena} {
			if m != nil {
				errs = append(errs, unix.Munmap(m))
			}
		}
		if p.fd > 0 {
			errs = append(errs, unix.Close(p.fd))
		}
		*p = peer{}
	}
	if t.arena != nil {
		errs = append(errs, t.arena.Close())
	}
	return errors.Join(errs...)
}

func (t *transport) Join(id int, name string, ranks []int, me int) (collective.Links, error) {
	if id >= maxGroups {
		return collective.Links{}, fmt.Errorf("a world has up to %d groups", maxGroups)
	}
	return collective.Links{Memory: &memory{t: t, id: id, ranks: ranks, me: me, copies: make([][2][]byte, collective.NumChannels(len(ranks)))}}, nil
}
