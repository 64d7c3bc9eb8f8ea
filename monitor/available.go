package monitor

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// Available is the memory that this process and its children may still allocate.
type Available struct {
	Bytes int64
	Why   string // the limit, for messages
}

// ReadAvailable returns the lesser of the machine's available memory and what the process's cgroups
// allow. It works on Linux only.
func ReadAvailable() (Available, error) { return readAvailable("/") }

func readAvailable(root string) (Available, error) {
	a, err := readMeminfo(path.Join(root, "proc/meminfo"))
	if err != nil {
		return a, err
	}
	for _, g := range Cgroups(root) {
		limit := g.Limit()
		if limit == 0 {
			continue
		}
		used := g.Used()
		if left := max(0, limit-used); left < a.Bytes {
			a = Available{left, fmt.Sprintf("its cgroup uses %s of %s", Bytes(used), Bytes(limit))}
		}
	}
	return a, nil
}

// readMeminfo reads MemAvailable, which includes reclaimable caches.
func readMeminfo(file string) (Available, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Available{}, fmt.Errorf("monitor: %w", err)
	}
	var available, total int64
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 53)
		if err != nil {
			continue
		}
		switch name {
		case "MemAvailable":
			available = kib << 10
		case "MemTotal":
			total = kib << 10
		}
	}
	if available == 0 {
		return Available{}, fmt.Errorf("monitor: %s has no MemAvailable", file)
	}
	return Available{available, fmt.Sprintf("the machine has %s, the rest is in use", Bytes(total))}, nil
}
