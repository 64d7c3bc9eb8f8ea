package monitor

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// Available is memory that this process, and those that it starts, may still take.
type Available struct {
	Bytes int64
	Why   string // what bounds it, for messages
}

// ReadAvailable asks Linux: what the machine has left, or the control groups of this process
// allow, whichever is less. Elsewhere it is an error.
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
			a = Available{left, fmt.Sprintf("its control group may use %s, and uses %s", Bytes(limit), Bytes(used))}
		}
	}
	return a, nil
}

// readMeminfo reads MemAvailable, which counts what the kernel would give back.
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
		return Available{}, fmt.Errorf("monitor: %s does not say how much memory is available", file)
	}
	return Available{available, fmt.Sprintf("the machine has %s, and the rest is in use", Bytes(total))}, nil
}
