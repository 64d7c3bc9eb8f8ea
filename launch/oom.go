package launch

import "trireme/monitor"

type oomCount struct {
	kills int64
	limit int64 // memory limit in bytes; 0: none or unknown
	known bool
}

// readOOM reads the cgroup of this process and its workers. Without one the count is unknown.
func readOOM() oomCount { return readOOMUnder("/") }

// since reports whether there were OOM kills after before, and the limit.
func (c oomCount) since(before oomCount) (bool, int64) {
	return c.known && before.known && c.kills > before.kills, c.limit
}

func readOOMUnder(root string) oomCount {
	groups := monitor.Cgroups(root)
	if len(groups) == 0 {
		return oomCount{}
	}
	g, events := groups[0], "memory.events"
	if g.V1 {
		events = "memory.oom_control"
	}
	return oomCount{kills: g.Count(events, "oom_kill"), limit: g.Limit(), known: true}
}
