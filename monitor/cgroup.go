package monitor

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// Cgroup is a Linux control group that may limit this process's memory.
type Cgroup struct {
	Dir string
	V1  bool // version 1, with other file names
}

// Cgroups returns this process's memory cgroup and its ancestors under a root directory ("/"); none if
// the system has none. In a container the process's cgroup may be the root of the mount.
func Cgroups(root string) []Cgroup {
	b, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	var out []Cgroup
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		mount, old := path.Join(root, "sys/fs/cgroup"), false
		switch {
		case f[0] == "0" && f[1] == "":
		case f[1] == "memory":
			mount, old = path.Join(mount, "memory"), true
		default:
			continue
		}
		for name := path.Join("/", f[2]); ; name = path.Dir(name) {
			g := Cgroup{path.Join(mount, name), old}
			if _, err := os.Stat(path.Join(g.Dir, g.file("memory.max", "memory.limit_in_bytes"))); err == nil {
				out = append(out, g)
			}
			if name == "/" {
				break
			}
		}
	}
	return out
}

func (g Cgroup) file(now, old string) string {
	if g.V1 {
		return old
	}
	return now
}

// noLimit is below the value that version 1 shows for no limit.
const noLimit = 1 << 62

// Limit returns the memory limit in bytes; 0 if there is none.
func (g Cgroup) Limit() int64 {
	n := g.number(g.file("memory.max", "memory.limit_in_bytes"))
	if n >= noLimit {
		return 0
	}
	return n
}

// Used returns the memory in use without file caches, in bytes.
func (g Cgroup) Used() int64 {
	n := g.number(g.file("memory.current", "memory.usage_in_bytes"))
	for _, key := range []string{"active_file", "inactive_file"} {
		n -= g.Count("memory.stat", g.file(key, "total_"+key))
	}
	return max(0, n)
}

// Count returns the value of a key in one of the group's files; 0 if it has none.
func (g Cgroup) Count(file, key string) int64 {
	b, err := os.ReadFile(path.Join(g.Dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if name, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == key {
			n, _ := strconv.ParseInt(v, 10, 64) // 0 if invalid
			return n
		}
	}
	return 0
}

func (g Cgroup) number(file string) int64 {
	b, err := os.ReadFile(path.Join(g.Dir, file))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0 // "max"
	}
	return n
}
