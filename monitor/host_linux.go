package monitor

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// userHZ is the unit of /proc/stat, the same on all Linux systems: 1/100 s.
const userHZ = 100

// sector is the unit of a block device's statistics.
const sector = 512

func readCounters(root, dir string) counters {
	c := unknownCounters()
	read := func(name string) []byte {
		b, err := os.ReadFile(path.Join(root, name))
		if err != nil {
			return nil // unknown
		}
		return b
	}
	c.busy = parseBusy(read("proc/stat"))
	c.load = parseLoad(read("proc/loadavg"))
	c.netReceived, c.netSent = parseNetwork(read("proc/net/dev"))
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err == nil {
		c.diskRead, c.diskWrite = parseDisk(read(fmt.Sprintf("sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev))))
	}
	if a, err := readAvailable(root); err == nil {
		c.available = float64(a.Bytes)
	}
	return c
}

// parseBusy returns the seconds that processors worked: /proc/stat without idle and iowait.
func parseBusy(b []byte) float64 {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 5 || string(f[0]) != "cpu" {
		return -1
	}
	busy := 0.0
	for i, v := range f[1:min(len(f), 9)] { // guest time is in user
		if i == 3 || i == 4 {
			continue
		}
		n := parseCount(v)
		if n < 0 {
			return -1
		}
		busy += n
	}
	return busy / userHZ
}

// parseLoad returns the load average of one minute.
func parseLoad(b []byte) float64 {
	first, _, _ := bytes.Cut(b, []byte(" "))
	v, err := strconv.ParseFloat(string(first), 64)
	if err != nil || !(v >= 0 && v < 1e9) {
		return -1
	}
	return v
}

// parseNetwork sums the bytes of all interfaces but the loopback.
func parseNetwork(b []byte) (received, sent float64) {
	known := false
	for line := range bytes.Lines(b) {
		name, values, ok := bytes.Cut(line, []byte(":"))
		f := bytes.Fields(values)
		if !ok || len(f) < 9 {
			continue
		}
		in, out := parseCount(f[0]), parseCount(f[8])
		if in < 0 || out < 0 {
			return -1, -1
		}
		known = true
		if string(bytes.TrimSpace(name)) != "lo" {
			received, sent = received+in, sent+out
		}
	}
	if !known {
		return -1, -1
	}
	return received, sent
}

// parseDisk returns the bytes read and written of a block device's stat.
func parseDisk(b []byte) (read, written float64) {
	f := bytes.Fields(b)
	if len(f) < 7 {
		return -1, -1
	}
	in, out := parseCount(f[2]), parseCount(f[6])
	if in < 0 || out < 0 {
		return -1, -1
	}
	return in * sector, out * sector
}

// parseCount returns a count, -1 if b is none.
func parseCount(b []byte) float64 {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return -1
	}
	return float64(n)
}
