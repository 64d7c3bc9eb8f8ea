package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"trireme/collective"
	"trireme/tensor"
)

// Open connects a rank to the others of its host. It waits for all of them, up to the time-out.
func Open(ctx context.Context, cfg Config) (collective.World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t, err := Connect(ctx, cfg, collective.NewFailureOnce(), nil)
	if err != nil {
		return nil, err
	}
	return collective.NewWorld(cfg.Rank, cfg.Size, t, cfg.Config)
}

// Connect is Open for a transport that connects other ranks too. A rank's failure is reported to failed,
// which records it in failure; nil: recorded here.
func Connect(ctx context.Context, cfg Config, failure *collective.FailureOnce, failed func(*collective.Failure)) (collective.Transport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	t := &transport{rank: cfg.Rank, ranks: cfg.Ranks, failure: failure, failed: failed, peers: make([]peer, cfg.Size)}
	if failed == nil {
		t.failed = t.fail
	}
	if err := t.connect(ctx, &cfg); err != nil {
		return nil, fmt.Errorf("collective/shm: rank %d of %d: %w", cfg.Rank, cfg.Size, err)
	}
	return t, nil
}

// address is the location of a rank's memory.
type address struct {
	pid, fd uint32
	arena   uint64
	host    string // boot id and pid namespace
}

func (h address) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, h.pid)
	b = binary.LittleEndian.AppendUint32(b, h.fd)
	b = binary.LittleEndian.AppendUint64(b, h.arena)
	return append(b, h.host...)
}

func decodeAddress(b []byte) (address, error) {
	if len(b) < 16 || len(b) > 512 {
		return address{}, fmt.Errorf("malformed address of %d bytes", len(b))
	}
	le := binary.LittleEndian
	h := address{pid: le.Uint32(b), fd: le.Uint32(b[4:]), arena: le.Uint64(b[8:]), host: string(b[16:])}
	if h.arena > 1<<46 {
		return address{}, fmt.Errorf("invalid arena size %d bytes", h.arena)
	}
	return h, nil
}

func host() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	ns, _ := os.Readlink("/proc/self/ns/pid")
	return string(boot) + ns
}

// connect maps all ranks' memory. A rank takes part in both exchanges even if it fails, so that all
// ranks fail together.
func (t *transport) connect(ctx context.Context, cfg *Config) (err error) {
	defer func() {
		if err != nil {
			t.unmap()
		}
	}()
	fd, ownErr := t.own(cfg)
	if fd >= 0 {
		defer unix.Close(fd)
	}
	var mine []byte
	if ownErr == nil {
		mine = address{uint32(os.Getpid()), uint32(fd), uint64(cfg.ArenaBytes), host()}.encode()
	}
	all, err := cfg.Bootstrap.AllGather(ctx, cfg.Key+"shm/memory", mine)
	if err != nil {
		return err
	}
	result := ownErr
	for r, b := range all {
		if result == nil && r != cfg.Rank && len(b) > 0 && slices.Contains(cfg.Ranks, r) {
			if result = t.join(r, cfg, b); result != nil {
				result = fmt.Errorf("memory of rank %d: %w", r, result)
			}
		}
	}
	var report []byte
	if result != nil {
		report = []byte(result.Error())
	}
	all, err = cfg.Bootstrap.AllGather(ctx, cfg.Key+"shm/joined", report)
	if err != nil {
		return errors.Join(result, err)
	}
	if result != nil {
		return result
	}
	for r, b := range all {
		if len(b) > 0 {
			return fmt.Errorf("rank %d could not join: %s", r, b)
		}
	}
	return t.watch()
}

// own creates the caller's memory. Its size is sealed, so accesses by peers cannot fault.
func (t *transport) own(cfg *Config) (int, error) {
	fd, err := unix.MemfdCreate("trireme", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("create shared memory: %w", err)
	}
	ctl := controlBytes(len(cfg.Ranks))
	if err := unix.Ftruncate(fd, int64(ctl)+cfg.ArenaBytes); err != nil {
		return fd, fmt.Errorf("size shared memory: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fd, fmt.Errorf("seal shared memory: %w", err)
	}
	p := &t.peers[cfg.Rank]
	p.control.ranks = len(cfg.Ranks)
	if p.control.mem, err = unix.Mmap(fd, 0, ctl, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE); err != nil {
		return fd, fmt.Errorf("map shared memory: %w", err)
	}
	h := p.control.head()
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fd, fmt.Errorf("dup shared memory: %w", err)
	}
	p.fd = kept
	t.arena = tensor.NewUnmappedArena(int(cfg.ArenaBytes), len(cfg.Ranks), func(n int) ([]byte, error) {
		mem, err := unix.Mmap(kept, int64(ctl), n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
		if err != nil {
			return nil, &tensor.AddressSpaceError{Bytes: int64(n), For: "a rank's shared tensors", Err: err}
		}
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // advice only
		atomic.StoreUint64(&h.Mapped, uint64(n))
		return mem, nil
	}, unix.Munmap)
	h.Magic, h.Rank, h.Size, h.CellSize = magic, uint32(cfg.Rank), uint32(cfg.Size), uint32(unsafe.Sizeof(collective.ChannelState{}))
	return fd, nil
}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

func (t *transport) join(r int, cfg *Config, b []byte) error {
	a, err := decodeAddress(b)
	if err != nil {
		return err
	}
	if a.host != host() {
		return errors.New("the rank runs on another host or in another container")
	}
	p := &t.peers[r]
	if p.pidfd, err = unix.PidfdOpen(int(a.pid), 0); err != nil {
		return fmt.Errorf("open process %d: %w", a.pid, err)
	}
	p.watched, p.pid = true, int(a.pid)
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", a.pid, a.fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open memory of process %d: %w", a.pid, err)
	}
	defer unix.Close(fd)
	ctl := controlBytes(len(cfg.Ranks))
	var st unix.Stat_t
	if got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || got&seals != seals {
		return errors.New("not sealed memory")
	}
	if err := unix.Fstat(fd, &st); err != nil || uint64(st.Size) != uint64(ctl)+a.arena {
		return fmt.Errorf("%d bytes, not %d", st.Size, uint64(ctl)+a.arena)
	}
	p.control.ranks = len(cfg.Ranks)
	if p.control.mem, err = unix.Mmap(fd, 0, ctl, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE); err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	h := p.control.head()
	if h.Magic != magic || int(h.Rank) != r || int(h.Size) != cfg.Size || h.CellSize != uint32(unsafe.Sizeof(collective.ChannelState{})) {
		return errors.New("the memory belongs to another rank, job or version of the program")
	}
	p.size = a.arena
	if p.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return fmt.Errorf("dup: %w", err)
	}
	return nil
}

// memory returns the part of the peer's arena that the peer has mapped. The first call maps it here.
func (p *peer) memory() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.arena != nil {
		return p.arena, nil
	}
	n := atomic.LoadUint64(&p.control.head().Mapped)
	if n == 0 || n > p.size {
		return nil, errRange
	}
	mem, err := unix.Mmap(p.fd, int64(controlBytes(p.control.ranks)), int(n), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("collective/shm: %w", &tensor.AddressSpaceError{Bytes: int64(n), For: "another rank's tensors", Err: err})
	}
	p.arena = mem
	return mem, nil
}
