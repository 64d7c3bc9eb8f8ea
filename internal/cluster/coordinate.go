package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"trireme/launch"
)

// order returns the live hosts in the order of ranks: by --node-rank, else members of the generation first,
// then by joining. Of two with one node rank only the first counts, and none with other settings.
func (m *machine) order() []host {
	all := slices.DeleteFunc(slices.Collect(maps.Values(m.hosts)), func(h host) bool { return contradiction(m.self, h) != "" }) // it ends
	slices.SortFunc(all, func(a, b host) int {
		x, y := m.gen.index(a.ID), m.gen.index(b.ID)
		if a.Rank >= 0 && b.Rank >= 0 || x == y {
			return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Order, b.Order))
		}
		return cmp.Compare(uint(x), uint(y)) // -1 is last
	})
	return slices.CompactFunc(all, func(a, b host) bool { return a.Rank >= 0 && a.Rank == b.Rank })
}

// refused returns the result of a launcher that cannot take part, or nil.
func (m *machine) refused() *result {
	for _, h := range m.hosts {
		if h.Order >= m.self.Order {
			continue
		}
		text := contradiction(m.self, h)
		switch {
		case text != "":
		case h.Rank >= 0 && h.Rank == m.self.Rank && m.reached(m.since("duplicate "+h.ID)+2*m.Lease): // it may be about to expire
			text = fmt.Sprintf("--node-rank %d is taken by host %s", h.Rank, h.Name)
		default:
			continue
		}
		return &result{Code: launch.CodeUsage, Text: text}
	}
	return nil
}

// contradiction says which setting of two hosts differs, or "".
func contradiction(a, b host) string {
	switch {
	case a.Least != b.Least || a.Most != b.Most:
		return fmt.Sprintf("--nnodes is %s on host %s and %s on host %s", nnodes(a.Least, a.Most), a.Name, nnodes(b.Least, b.Most), b.Name)
	case (a.Rank < 0) != (b.Rank < 0):
		return fmt.Sprintf("--node-rank is set on one of the hosts %s and %s only", b.Name, a.Name)
	}
	return ""
}

func nnodes(least, most int) string {
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d:%d", least, most)
}

// first reports whether this host is the first of the live ones.
func (m *machine) first() bool {
	order := m.order()
	return len(order) > 0 && order[0].ID == m.self.ID
}

// coordinate does what the first live host does for all.
func (m *machine) coordinate() {
	order, g := m.order(), m.gen
	if !m.first() || g != nil && g.Result != nil {
		return
	}
	v := verdict{}
	if g != nil {
		over, lost := m.over()
		if !over {
			if newcomer := m.newcomer(order); newcomer != "" && !lost {
				next := *g
				next.Stop = &stop{Signal: syscall.SIGTERM, Reform: true, Host: newcomer}
				m.write(generationKey, encode(&next), m.revision)
			}
			return
		}
		e := ending{generation: g, ends: map[string]end{}, failing: map[string]notice{}, restart: m.restarts, wait: m.replaces(), lease: m.Lease}
		for _, h := range g.Hosts {
			key := recordKey("", g.Number, h.ID)
			if got, ok := m.ends[key]; ok {
				e.ends[h.ID] = got
			}
			if n, ok := m.failing[key]; ok {
				e.failing[h.ID] = n
			}
		}
		v = e.judge()
		v.changed = v.changed || lost
		if v.result != nil {
			m.conclude(v.result)
			return
		}
	}
	m.form(order, v)
}

// over reports whether every member of the generation has ended or is lost, and whether any is lost.
func (m *machine) over() (over, lost bool) {
	over = true
	for _, h := range m.gen.Hosts {
		_, live := m.hosts[h.ID]
		_, has := m.ends[recordKey("", m.gen.Number, h.ID)]
		over = over && (has || !live)
		lost = lost || !has && !live
	}
	return over, lost
}

// newcomer returns the name of a host to take into the running generation, or "".
func (m *machine) newcomer(order []host) string {
	if !m.elastic || m.gen.Stop != nil || len(m.gen.Hosts) >= m.most {
		return ""
	}
	for _, h := range m.gen.Hosts {
		if _, has := m.ends[recordKey("", m.gen.Number, h.ID)]; has { // it is ending
			return ""
		}
	}
	for _, h := range order {
		if m.gen.index(h.ID) < 0 {
			return h.Name
		}
	}
	return ""
}

// conclude writes the result of the job.
func (m *machine) conclude(r *result) {
	g := generation{}
	if m.gen != nil {
		g = *m.gen
	}
	g.Result = r
	m.write(generationKey, encode(&g), m.revision)
}

// form writes the next generation once the hosts for it have joined.
func (m *machine) form(order []host, v verdict) {
	begun := m.since("forming")
	switch {
	case len(order) >= m.most || m.gen != nil && !v.changed && len(order) >= m.least:
	case len(order) < m.least:
		delete(m.forming, "enough")
		if m.reached(begun + m.JoinTimeout) {
			cause := ""
			if v.cause != "" {
				cause = v.cause + ". "
			}
			m.conclude(&result{Code: launch.CodePeerLost, Text: cause + fmt.Sprintf("%d of %d hosts joined within %v: %s. try: the same command on the others, which must reach %s (trireme doctor --nnodes %d), a longer --rdzv-conf join_timeout=SECONDS, or --nnodes %d:%d",
				len(order), m.least, m.JoinTimeout, names(order), m.store, m.least, len(order), m.most)})
		}
		return
	default:
		wait := m.LastCall
		if m.gen != nil { // several hosts that are lost together end their leases within this time
			wait = min(wait, m.Lease)
		}
		if !m.reached(m.since("enough") + wait) {
			return
		}
	}
	next := generation{RunID: m.runID, MasterAddr: m.masterAddr, MasterPort: m.masterPort, Cause: v.cause}
	if next.MasterAddr == "" {
		next.MasterAddr = m.self.Addr
	}
	if m.gen != nil {
		next.Number, next.Restarts, next.RunID = m.gen.Number+1, m.gen.Restarts, m.gen.RunID
		if v.counted {
			next.Restarts++
		}
	}
	order = order[:min(len(order), m.most)]
	for i, h := range order {
		if slices.ContainsFunc(order, func(other host) bool { return other.ID != h.ID && other.Name == h.Name }) {
			h.Name += fmt.Sprintf(" (host %d)", i) // two launchers on one machine
		}
		next.Hosts = append(next.Hosts, member{ID: h.ID, Name: h.Name, First: next.Size, Ranks: h.Ranks, Logs: h.Logs})
		next.Size += h.Ranks
	}
	next.FirstSize = next.Size
	if m.gen != nil {
		next.FirstSize = m.gen.FirstSize
	}
	if v.changed {
		next.Cause += fmt.Sprintf(". continuing with %s and %s", count(len(next.Hosts), "host"), count(next.Size, "rank"))
	}
	if p, ok := m.pending[generationKey]; ok && p.revision == m.revision && !m.reached(p.at+retryAfter) {
		return
	}
	m.pending[generationKey] = retry{m.revision, m.now}
	m.reached(m.now + retryAfter)
	m.do(form{next, m.revision})
}

// count is "1 host" or "2 hosts".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// progress is the state of the lines about waiting.
type progress struct {
	since, next time.Duration
	active      bool
}

// progress says, after a second and then at growing intervals, what this host waits for.
func (m *machine) progress() {
	p := &m.waiting
	if m.run != nil || m.finished || m.result != nil || m.least == 1 && m.most == 1 {
		p.active = false
		return
	}
	if !p.active {
		*p = progress{since: m.now, next: m.now + time.Second, active: true}
	}
	if !m.reached(p.next) {
		return
	}
	p.next = m.now + min(2*(m.now-p.since), time.Minute)
	m.reached(p.next)
	order := m.order()
	var joined []string
	for _, h := range order {
		joined = append(joined, h.Name)
	}
	waited := (m.now - p.since).Round(time.Second)
	switch over := true; {
	case m.gen != nil && len(m.gen.Hosts) > 0:
		if over, _ = m.over(); !over {
			m.do(say{fmt.Sprintf("waiting for %v: the job runs on %d hosts", waited, len(m.gen.Hosts))})
			return
		}
		fallthrough
	default:
		missing := fmt.Sprintf("%d of %d missing", max(0, m.most-len(order)), m.most)
		if m.elastic {
			missing = fmt.Sprintf("%d to %d wanted", m.least, m.most)
		}
		m.do(say{fmt.Sprintf("waiting for hosts since %v: %s joined %s, %s (join_timeout %v)", waited, strings.Join(joined, ", "), m.store, missing, m.JoinTimeout)})
	}
}
