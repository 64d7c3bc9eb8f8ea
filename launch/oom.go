package launch

import "trireme/monitor"

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
