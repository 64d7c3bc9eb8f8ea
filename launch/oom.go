package launch

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
)

// oomCount is how many processes of our memory group the kernel has killed for want of
// memory so far.
type oomCount struct {
	kills int64
	limit int64 // bytes; 0: none, or unknown
	known bool
}

// readOOM asks the control group of this process, in which its workers are too; where there
// is none, the count is not known.
func readOOM() oomCount { return readOOMUnder("/") }

// since says whether the kernel has killed since then.
func (c oomCount) since(before oomCount) (bool, int64) {
	return c.known && before.known && c.kills > before.kills, c.limit
}

// readOOMUnder reads the hierarchy of either version of control groups. In a container our
// group may be shown at the root of the mount, whatever its name.
func readOOMUnder(root string) oomCount {
	b, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return oomCount{}
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		mount, events, limit := path.Join(root, "sys/fs/cgroup"), "memory.events", "memory.max"
		switch {
		case f[0] == "0" && f[1] == "":
		case f[1] == "memory":
			mount, events, limit = path.Join(mount, "memory"), "memory.oom_control", "memory.limit_in_bytes"
		default:
			continue
		}
		for _, dir := range []string{path.Join(mount, f[2]), mount} {
			if c := readGroup(path.Join(dir, events), path.Join(dir, limit)); c.known {
				return c
			}
		}
	}
	return oomCount{}
}

// noLimit is above what a group without a limit shows in version 1, rounded to its pages.
const noLimit = 1 << 62

func readGroup(events, limit string) oomCount {
	var c oomCount
	b, err := os.ReadFile(events)
	if err != nil {
		return c
	}
	for line := range bytes.Lines(b) {
		if name, v, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && name == "oom_kill" {
			n, err := strconv.ParseInt(v, 10, 64)
			c.kills, c.known = n, err == nil
		}
	}
	if b, err := os.ReadFile(limit); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n < noLimit {
			c.limit = n
		}
	}
	return c
}
