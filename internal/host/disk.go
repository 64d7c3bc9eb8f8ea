package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"trireme/internal/disk"
)

// Disk is the disk of a directory.
type Disk struct {
	Dir    string `json:"dir,omitempty"`  // empty: none was measured
	Free   int64  `json:"free,omitempty"` // bytes; 0: unknown
	Write  int64  `json:"write,omitempty"`
	Read   int64  `json:"read,omitempty"` // bytes per second; Write includes fsync
	Direct bool   `json:"direct"`         // Read bypasses the page cache
	Err    string `json:"error,omitempty"`
}

// The measurement ends with whichever limit it reaches first.
const (
	diskBytes = 64 << 20
	diskTime  = 600 * time.Millisecond // of each direction
	diskChunk = 4 << 20
	diskSpace = 1 << 30 // with less free space nothing is written
)

// measureDisk measures the disk of a directory, or of its nearest parent. It leaves nothing behind.
func measureDisk(dir string) (d Disk) {
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	d = Disk{Dir: dir, Free: disk.Free(dir)}
	if d.Free > 0 && d.Free < diskSpace {
		if err := disk.CheckDir(dir); err != nil {
			d.Err = err.Error()
		}
		return d
	}
	f, err := disk.Unnamed(dir)
	if err != nil {
		d.Err = err.Error()
		return d
	}
	defer f.Close()
	if d.Write, err = writeSpeed(f); err == nil {
		d.Read, d.Direct, err = readSpeed(f)
	}
	if err != nil {
		d.Err = err.Error()
	}
	return d
}

func writeSpeed(f *os.File) (bytesPerSecond int64, err error) {
	chunk := make([]byte, diskChunk)
	for i := range chunk { // not compressible
		chunk[i] = byte(i*i>>7 ^ i*0x9e3779b1>>13)
	}
	began, n := time.Now(), int64(0)
	for n < diskBytes && time.Since(began) < diskTime {
		k, err := f.Write(chunk)
		if n += int64(k); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	return rate(n, time.Since(began)), nil
}

func readSpeed(f *os.File) (bytesPerSecond int64, direct bool, err error) {
	b, free, direct := directBuffer(f, diskChunk)
	defer free()
	began, n := time.Now(), int64(0)
	for time.Since(began) < diskTime {
		k, err := f.ReadAt(b, n)
		n += int64(k)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, direct, err
		}
	}
	return rate(n, time.Since(began)), direct, nil
}

func rate(n int64, d time.Duration) int64 { return int64(float64(n) / max(d.Seconds(), 1e-9)) }
