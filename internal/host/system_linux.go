package host

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"trireme/internal/disk"
)

// kernel returns the release of the operating system's kernel.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// limits reads the limits that matter to runs.
func limits() (out []Limit) {
	for _, l := range []struct {
		name string
		id   int
	}{
		{"nofile", unix.RLIMIT_NOFILE},
		{"nproc", unix.RLIMIT_NPROC},
		{"memlock", unix.RLIMIT_MEMLOCK},
		{"core", unix.RLIMIT_CORE},
		{"as", unix.RLIMIT_AS},
		{"fsize", unix.RLIMIT_FSIZE},
	} {
		var r unix.Rlimit
		if unix.Getrlimit(l.id, &r) == nil {
			out = append(out, Limit{l.name, bounded(r.Cur), bounded(r.Max)})
		}
	}
	return out
}

func bounded(n uint64) int64 {
	if n > 1<<62 {
		return -1
	}
	return int64(n)
}

// shared makes and maps an unnamed memory file, as the shm transport does.
func shared() (s Shared) {
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) == nil && st.Type == unix.TMPFS_MAGIC {
		s.Size, s.Free = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	}
	if err := tryMemfd(); err != nil {
		s.Memfd = err.Error()
	}
	return s
}

func tryMemfd() error {
	fd, err := unix.MemfdCreate("trireme", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	const n = 1 << 20
	if err := unix.Ftruncate(fd, n); err != nil {
		return fmt.Errorf("memory file: %w", err)
	}
	b, err := unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping a memory file: %w", err)
	}
	b[n-1] = 1
	return unix.Munmap(b)
}

// synchronized reads whether the kernel's clock is synchronized.
func synchronized() (yes, known bool) {
	var t unix.Timex
	state, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &t)
	if err != nil {
		return false, false
	}
	const staUnsync, timeError = 0x40, 5
	return state != timeError && t.Status&staUnsync == 0, true
}

// directBuffer returns a buffer for reads of f that bypass the page cache, or of an ordinary one if the file
// system has no such reads.
func directBuffer(f *os.File, n int) (b []byte, free func(), direct bool) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return make([]byte, n), func() {}, false
	}
	free = func() { _ = unix.Munmap(b) } // from Mmap: cannot fail
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return b, free, false
	}
	if _, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_DIRECT); err != nil {
		return b, free, false
	}
	if _, err := f.ReadAt(b[:disk.Block], 0); err != nil { // some file systems refuse the transfer
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
		return b, free, err != nil
	}
	return b, free, true
}
