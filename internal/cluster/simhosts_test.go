package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"syscall"
	"time"

	"trireme/launch"
)

// watch sends all entries and then each change, in order, with random delays.
func (s *sim) watch(l *simLauncher) {
	l.arrives, l.held = 0, nil
	s.notify(l, reset{})
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		s.notify(l, changed{key, s.keys[key].value, s.keys[key].revision})
	}
	s.notify(l, synced{})
}

func (s *sim) notify(l *simLauncher, e event) {
	switch {
	case l.m == nil:
	case l.cut:
		l.held = append(l.held, e)
	default:
		l.arrives = max(l.arrives, s.now) + s.upTo(30*time.Millisecond)
		s.inform(l, l.arrives-s.now, e)
	}
}

// expire ends leases in time.
func (s *sim) expire() {
	for _, key := range slices.Sorted(maps.Keys(s.leases)) {
		if s.now >= s.leases[key] {
			s.remove(key)
		}
	}
	for _, l := range s.launchers { // a launcher that is lost ends its workers before the others start again
		if g := s.gens[l.run]; l.m != nil && l.run >= 0 && g != s.gens[s.current] && s.now-s.gens[s.current].begunAt > s.settings.grace+time.Second {
			s.violated("host n%d runs generation %d, %v after generation %d was formed", l.index, l.run, s.now-s.gens[s.current].begunAt, s.current)
		}
	}
	s.after(50*time.Millisecond, s.expire)
}

// renew renews a lease like store.Lease: its owner notices the loss in time, by its own clock.
func (s *sim) renew(l *simLauncher, id string) {
	key := hostsPrefix + id
	if l.m == nil || l.id != id {
		return
	}
	_, exists := s.keys[key]
	switch {
	case !l.cut && exists:
		s.leases[key], l.renewed = s.now+s.settings.Lease, s.now
	case !l.cut || s.now-l.renewed >= s.settings.Lease-200*time.Millisecond:
		s.inform(l, 0, unregistered{})
		return
	}
	s.after(200*time.Millisecond, func() { s.renew(l, id) })
}

// checkRecord compares a generation record with the earlier ones.
func (s *sim) checkRecord(value []byte) {
	var g generation
	if err := json.Unmarshal(value, &g); err != nil {
		s.violated("a record is not JSON: %v", err)
	}
	s.trace("%v generation %d: %d hosts, stop %v, result %+v", s.now, g.Number, len(g.Hosts), g.Stop, g.Result)
	if s.result != nil {
		s.violated("the record changed after the result")
	}
	known := s.gens[g.Number]
	switch {
	case known == nil && g.Number != s.current+1:
		s.violated("generation %d follows %d", g.Number, s.current)
	case known == nil:
		s.checkNext(&g)
		s.current = g.Number
		s.gens[g.Number] = &simGen{record: g, begunAt: s.now, running: map[string]*simLauncher{}, started: map[string]bool{}, failed: map[int]int{}, ends: map[string]int{}}
	case g.Number != s.current:
		s.violated("generation %d was written again after %d", g.Number, s.current)
	case !reflect.DeepEqual(known.record.Hosts, g.Hosts) || known.record.Size != g.Size || known.record.Restarts != g.Restarts || known.record.MasterPort != g.MasterPort:
		s.violated("two generations %d: %+v and %+v", g.Number, known.record, g)
	}
	if g.Result != nil {
		s.checkResult(&g)
		s.result = g.Result
	}
}

// checkNext checks the first record of a generation.
func (s *sim) checkNext(g *generation) {
	if len(g.Hosts) == 0 && g.Result != nil {
		return
	}
	if n := len(g.Hosts); n < s.settings.least || n > s.settings.most {
		s.violated("generation %d has %d hosts", g.Number, n)
	}
	first := 0
	for _, h := range g.Hosts {
		if h.First != first {
			s.violated("the ranks of generation %d are not consecutive: %+v", g.Number, g.Hosts)
		}
		first += h.Ranks
	}
	if first != g.Size {
		s.violated("generation %d has %d ranks, not %d", g.Number, first, g.Size)
	}
	if g.Number == 0 {
		return
	}
	before := s.gens[g.Number-1]
	var kept []string // members of both, whose order remains
	for _, h := range before.record.Hosts {
		if g.index(h.ID) >= 0 {
			kept = append(kept, h.ID)
		}
	}
	for i, id := range kept {
		if g.Hosts[i].ID != id {
			s.violated("the order of hosts changed: %+v, %+v", before.record.Hosts, g.Hosts)
		}
		if before.running[id] != nil {
			s.violated("generation %d starts while %s runs %d", g.Number, id, g.Number-1)
		}
	}
	same := slices.EqualFunc(before.record.Hosts, g.Hosts, func(a, b member) bool { return a.ID == b.ID })
	if len(before.failed) > 0 && same && g.Restarts == before.record.Restarts {
		s.violated("generation %d follows %v without counting a restart", g.Number, before.failed)
	}
	if code, ok := before.onlyCode(); ok && same && code == launch.CodeUsage {
		s.violated("generation %d follows an error that a restart does not repair", g.Number)
	}
	if grew := g.Restarts - before.record.Restarts; grew < 0 || grew > 1 || grew == 1 && !before.broken || g.Restarts > s.settings.restarts {
		s.violated("generation %d counts %d restarts after %d, and %d workers failed", g.Number, g.Restarts, before.record.Restarts, len(before.failed))
	}
}

// checkResult checks that a result follows from what happened in its generation.
func (s *sim) checkResult(g *generation) {
	sg, r := s.gens[g.Number], g.Result
	f := r.Failure
	switch {
	case r.Code == 0:
		for _, h := range g.Hosts {
			if code, ok := sg.ends[h.ID]; !ok || code != 0 {
				s.violated("the result is 0, but %s of generation %d ended with %d, %v", h.ID, g.Number, code, ok)
			}
		}
	case f != nil && f.Rank >= 0 && f.Code != launch.CodePeerLost:
		if code, ok := sg.failed[f.Rank]; !ok || code != f.Code {
			s.violated("the result names rank %d with code %d, but in generation %d %v failed", f.Rank, f.Code, g.Number, sg.failed)
		}
		at := g.hostOf(f.Rank)
		if at == nil || at.Name != f.Host && len(g.Hosts) > 1 {
			s.violated("rank %d is not on host %s", f.Rank, f.Host)
		}
		for rank, code := range sg.failed { // the first in the store's order, unless they fail alike
			first, other := s.noticed(g.Number, at.ID), s.noticed(g.Number, g.hostOf(rank).ID)
			if code != f.Code && other > 0 && (first == 0 || other < first) && s.ended(g.Number, g.hostOf(rank).ID) == code {
				s.violated("the result names rank %d, and rank %d failed before it", f.Rank, rank)
			}
		}
	case f != nil && f.Rank >= 0 && s.hostsLost == 0:
		s.violated("the result names the lost rank %d instead of a cause", f.Rank)
	case f != nil && s.hostsLost == 0 && !s.signaled:
		s.violated("a host is lost in the result alone: %v", f)
	case (r.Code == launch.CodeStopped || r.Code == launch.CodeTerminated) && !s.signaled:
		s.violated("the result is %d, but nobody stopped the job", r.Code)
	}
}

// onlyCode returns the code of the failed workers if all have the same.
func (g *simGen) onlyCode() (code int, ok bool) {
	for _, c := range g.failed {
		if ok && c != code {
			return 0, false
		}
		code, ok = c, true
	}
	return code, ok
}

// noticed returns the revision of the record that a worker of a host failed, or 0.
func (s *sim) noticed(number int, id string) uint64 {
	return s.keys[recordKey(failingPrefix, number, id)].revision
}

// ended returns the code of a host's failure, or 0.
func (s *sim) ended(number int, id string) int {
	var e end
	if json.Unmarshal(s.keys[recordKey(endsPrefix, number, id)].value, &e) != nil || e.Failure == nil {
		return 0
	}
	return e.Failure.Code
}

// start starts the workers of a host.
func (s *sim) start(l *simLauncher, a start) {
	g, id := a.generation, a.generation.Hosts[a.index].ID
	sg := s.gens[g.Number]
	switch {
	case l.run >= 0:
		s.violated("host n%d starts generation %d while it runs %d", l.index, g.Number, l.run)
	case l.id != id:
		s.violated("host n%d is not %s", l.index, id)
	case sg.started[id]:
		s.violated("host n%d starts generation %d twice", l.index, g.Number)
	}
	if s.gens[s.current] != sg { // its record may have come late
		s.trace("%v n%d starts the old generation %d", s.now, l.index, g.Number)
	}
	sg.started[id], sg.running[id] = true, l
	l.run, l.failure = g.Number, nil
	if len(sg.running) < len(g.Hosts) || sg.broken {
		return
	}
	begun, remaining := s.now, s.remaining // all run
	sg.begun = begun
	s.after(remaining, func() {
		if sg.broken {
			return
		}
		s.remaining = 0
		for _, h := range g.Hosts {
			if l := sg.running[h.ID]; l != nil {
				life := l.life
				s.after(s.upTo(100*time.Millisecond), func() { s.endWorkers(l, life, g.Number, end{}) })
			}
		}
	})
	if !s.quiet && s.r.IntN(3) == 0 {
		s.after(s.upTo(remaining+time.Second), func() { s.failWorker(sg) })
	}
}

// endWorkers ends the workers of a host by themselves, unless they have ended.
func (s *sim) endWorkers(l *simLauncher, life, number int, e end) {
	if l.m == nil || l.life != life || l.run != number || number < 0 {
		return
	}
	sg := s.gens[number]
	l.run = -1
	for id, other := range sg.running {
		if other == l {
			delete(sg.running, id)
			if !e.Ended {
				sg.ends[id] = e.Code
			}
			s.inform(l, s.upTo(20*time.Millisecond), ended{number, id, e})
		}
	}
	if e.Code != 0 {
		s.breakGeneration(sg, l)
	}
}

// breakGeneration ends the other workers, after those of one host have ended, unless they are silent.
func (s *sim) breakGeneration(sg *simGen, cause *simLauncher) {
	if sg.broken {
		return
	}
	sg.broken = true
	if sg.begun > 0 {
		s.remaining = max(0, s.remaining-(s.now-sg.begun)/2) // by the last checkpoint
	}
	if s.silent {
		return
	}
	rank := -1
	for _, h := range sg.record.Hosts {
		if cause != nil && h.Name == fmt.Sprint("n", cause.index) {
			rank = h.First
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sg.running)) {
		l := sg.running[id]
		if l == cause && l.failure != nil {
			continue
		}
		life := l.life
		s.after(s.upTo(time.Second), func() {
			if l.m == nil || l.life != life || l.run != sg.record.Number {
				return
			}
			l.failure = &launch.Failure{Rank: rank, Code: launch.CodePeerLost, Why: "no answer"}
			s.inform(l, 0, failing{sg.record.Number, launch.CodePeerLost})
			s.after(s.upTo(s.settings.grace), func() {
				s.endWorkers(l, life, sg.record.Number, end{Code: launch.CodePeerLost, Failure: l.failure})
			})
		})
	}
}

// failWorker ends a worker of a generation with an error.
func (s *sim) failWorker(sg *simGen) {
	ids := slices.Sorted(maps.Keys(sg.running))
	ids = slices.DeleteFunc(ids, func(id string) bool { return sg.running[id].failure != nil })
	if s.quiet || len(ids) == 0 || sg.broken && len(sg.failed) == 0 {
		return
	}
	id := ids[s.r.IntN(len(ids))]
	l, h := sg.running[id], sg.record.Hosts[sg.record.index(id)]
	rank, code := h.First+s.r.IntN(h.Ranks), 1+s.r.IntN(2)*136
	if s.r.IntN(10) == 0 {
		code, s.fatal = launch.CodeUsage, true
	}
	s.trace("%v rank %d on n%d fails with %d", s.now, rank, l.index, code)
	s.failures++
	sg.failed[rank] = code
	if len(ids) > 1 && len(sg.failed) == 1 && s.r.IntN(4) == 0 { // another one at almost the same time
		s.after(s.upTo(200*time.Millisecond), func() { s.failWorker(sg) })
	}
	life := l.life
	l.failure = &launch.Failure{Rank: rank, Code: code}
	s.inform(l, 0, failing{sg.record.Number, code})
	s.breakGeneration(sg, l)
	s.after(s.upTo(s.settings.grace), func() {
		s.endWorkers(l, life, sg.record.Number, end{Code: code, Failure: l.failure})
	})
}

// cancel ends a host's workers within the grace.
func (s *sim) cancel(l *simLauncher) {
	life, number := l.life, l.run
	s.after(s.upTo(s.settings.grace), func() { s.endWorkers(l, life, number, end{Code: 1, Failure: l.failure, Ended: true}) })
}

// forward stops workers: all save a checkpoint, if all run.
func (s *sim) forward(l *simLauncher, sig syscall.Signal) {
	if l.run < 0 || sig == syscall.SIGQUIT {
		return
	}
	sg := s.gens[l.run]
	if s.silent || sg.broken || len(sg.running) < len(sg.record.Hosts) || sg.begun == 0 {
		life, number := l.life, l.run
		s.after(s.upTo(s.settings.grace), func() {
			e := end{Code: launch.CodeTerminated} // the other hosts' workers wait for these
			if l.failure != nil {
				e = end{Code: l.failure.Code, Failure: l.failure}
			}
			s.endWorkers(l, life, number, e)
		})
		return
	}
	sg.broken = true
	s.remaining = max(0, s.remaining-(s.now-sg.begun))
	for _, id := range slices.Sorted(maps.Keys(sg.running)) {
		other := sg.running[id]
		life := other.life
		s.after(s.upTo(time.Second), func() {
			s.endWorkers(other, life, sg.record.Number, end{Code: launch.CodeStopped})
		})
	}
}

// fault injects a fault and schedules the next.
func (s *sim) fault() {
	if s.now >= s.faultsEnd {
		s.quiet = true
		for _, l := range s.launchers {
			s.restore(l)
			if s.settings.elastic || s.settings.restarts > 0 {
				s.after(s.upTo(time.Second), func() { s.boot(l) })
			}
		}
		return
	}
	l := s.launchers[s.r.IntN(len(s.launchers))]
	switch s.r.IntN(8) {
	case 0, 1:
		s.crash(l)
		if s.r.IntN(2) == 0 {
			s.after(s.upTo(8*time.Second), func() { s.boot(l) })
		}
	case 2, 3:
		if l.m != nil && !l.cut {
			s.trace("%v cut n%d", s.now, l.index)
			l.cut = true
			s.hostsLost++
			s.after(s.upTo(15*time.Second), func() { s.restore(l) })
			if sg := s.gens[l.run]; sg != nil && !s.silent && s.r.IntN(2) == 0 { // the workers' link too
				s.failures++
				s.breakGeneration(sg, l)
			}
		}
	case 4:
		if l.m != nil && s.r.IntN(6) == 0 {
			s.trace("%v SIGTERM n%d", s.now, l.index)
			s.signaled = true
			s.inform(l, 0, signaled{syscall.SIGTERM})
		}
	case 5:
		s.boot(l)
	case 6:
		if l.m != nil && s.r.IntN(3) == 0 {
			s.trace("%v n%d leaves", s.now, l.index)
			s.hostsLost++
			s.inform(l, 0, abandoned{launch.CodeFailed, callerEnds})
		}
	}
	s.after(s.upTo(10*time.Second), s.fault)
}

// crash ends a launcher's process and its workers.
func (s *sim) crash(l *simLauncher) {
	if l.m == nil {
		return
	}
	s.trace("%v crash n%d", s.now, l.index)
	s.hostsLost++
	sg := s.gens[l.run]
	l.m, l.run = nil, -1
	if sg != nil {
		maps.DeleteFunc(sg.running, func(_ string, other *simLauncher) bool { return other == l })
		s.breakGeneration(sg, l)
	}
}

// restore restores a link.
func (s *sim) restore(l *simLauncher) {
	if !l.cut {
		return
	}
	s.trace("%v restore n%d", s.now, l.index)
	l.cut = false
	held := l.held
	l.held = nil
	for _, e := range held {
		s.notify(l, e)
	}
}

// judge checks the end of a job.
func (s *sim) judge() {
	for _, l := range s.launchers {
		if l.m != nil {
			s.violated("host n%d has not finished", l.index)
		}
	}
	if s.result == nil {
		s.outcome = "never formed"
		if !s.signaled && s.hostsLost == 0 {
			s.violated("no result without a fault")
		}
		return
	}
	for _, l := range s.launchers {
		if r := l.result; r != nil && r.Code != s.result.Code && s.hostsLost == 0 && !s.signaled {
			s.violated("host n%d ended with %+v, the job with %+v", l.index, r, s.result)
		}
	}
	r := s.result
	promised := !s.signaled && !s.fatal && s.failures <= s.settings.restarts && (s.hostsLost == 0 || s.settings.elastic || s.settings.restarts > 0)
	switch {
	case r.Code == 0 && s.failures > 0:
		s.outcome = "done after restarts"
	case r.Code == 0 && s.hostsLost > 0:
		s.outcome = "done after a lost host"
	case r.Code == 0:
		s.outcome = "done"
	case s.signaled:
		s.outcome = "stopped"
	case r.Failure != nil && r.Failure.Rank < 0:
		s.outcome = "lost"
	default:
		s.outcome = "failed"
	}
	if promised && r.Code != 0 {
		s.violated("the job ended with %+v, and a restart was left", r)
	}
}
