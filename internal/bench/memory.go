package bench

import (
	"os"
	"slices"
	"sync"
	"time"
)

// CopyBandwidth measures bytes per second that threads read and write together when each copies between two buffers
// of its own, larger than its share of the cache. It is the best of several runs.
func CopyBandwidth(threads int) float64 {
	const size, runs = 64 << 20, 5
	type buffers struct{ dst, src []byte }
	each := make([]buffers, threads)
	for i := range each {
		each[i] = buffers{make([]byte, size), make([]byte, size)}
		copy(each[i].dst, each[i].src) // maps the pages
	}
	best := 0.0
	for range runs {
		var wg sync.WaitGroup
		start := time.Now()
		for _, b := range each {
			wg.Go(func() { copy(b.dst, b.src) })
		}
		wg.Wait()
		best = max(best, 2*size*float64(threads)/time.Since(start).Seconds())
	}
	return best
}

// DiskBandwidth measures bytes per second of writing a file of size bytes in dir until it is on the disk, and of
// reading it again. It removes the file.
func DiskBandwidth(dir string, size int) (write, read float64, err error) {
	f, err := os.CreateTemp(dir, "bench-*")
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if e := os.Remove(f.Name()); err == nil {
			err = e
		}
	}()
	block := slices.Repeat([]byte{0x5a, 0xc3, 0x0f, 0x96}, 1<<18)
	start := time.Now()
	for n := 0; n < size; n += len(block) {
		if _, err := f.Write(block); err != nil {
			return 0, 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, 0, err
	}
	write = float64(size) / time.Since(start).Seconds()
	start = time.Now()
	for n := 0; n < size; n += len(block) {
		if _, err := f.ReadAt(block, int64(n)); err != nil {
			return 0, 0, err
		}
	}
	return write, float64(size) / time.Since(start).Seconds(), nil
}
