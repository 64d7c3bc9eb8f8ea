package rendezvous

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

type wait struct {
	peer     *peer
	id       uint32
	op       op
	key      string
	since    time.Time
	notified int // notices sent
	timer    *time.Timer
}

func (w *wait) gathers() bool { return w.op == opGather || w.op == opAwait }

// heartbeats sends heartbeats to every rank, checks theirs, and sends notices to waiting ranks.
func (s *server) heartbeats() {
	t := time.NewTicker(s.cfg.Heartbeat / beats)
	defer t.Stop()
	sign := message{op: opHeartbeat}
	for n := 0; ; {
		select {
		case <-s.stop:
			return
		case <-t.C:
		}
		s.mu.Lock()
		for r, p := range s.ranks {
			p.send(sign)
			if f := p.watchdog.tick(); f != nil && !s.left[r] {
				s.lose(p, f)
			}
		}
		if n++; n%max(1, s.world/128) == 0 { // it compares all ranks with all that wait
			s.diagnose()
		}
		for w := range s.waits {
			if time.Since(w.since) < notice(w.notified) {
				continue
			}
			w.notified++
			if text := s.waitNotice(w); text != "" {
				w.peer.send(message{op: opNote, value: []byte(text)})
				if s.alsoRankZero(w) {
					s.ranks[0].send(message{op: opNote, value: []byte(text)})
				}
			}
		}
		s.mu.Unlock()
	}
}

// alsoRankZero reports whether rank 0, whose output is the job's, gets the notice of w too: if it does not wait for the
// same, and w is of the lowest rank that does.
func (s *server) alsoRankZero(w *wait) bool {
	for o := range s.waits {
		if o.key == w.key && o.peer.rank < w.peer.rank {
			return false
		}
	}
	return w.gathers() && w.peer.rank > 0 && s.ranks[0] != nil
}

// waitNotice returns a line with the ranks that a request waits for; "" if it waits for none.
func (s *server) waitNotice(w *wait) string {
	absent, late := s.missingRanks(w)
	var names []string
	for _, r := range absent {
		names = append(names, strconv.Itoa(r))
	}
	what := "rank "
	if len(absent) == 0 && len(late) > 0 {
		for _, r := range late {
			names = append(names, strconv.Itoa(r))
		}
		if p := s.ranks[late[0]]; len(late) == 1 && p != nil {
			names[0] += fmt.Sprintf(" (pid %d on %s)", p.watchdog.process.pid, p.watchdog.process.host)
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > 1:
		what = "ranks "
	}
	if more := len(names) - 8; more > 0 {
		names = append(names[:8], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("waiting for %s%s of %d at %s%s", what, strings.Join(names, ", "), s.world, s.listen.Addr(), s.activityOf(late))
}

// wait defers a request until it can be answered or times out, or a rank is lost.
func (s *server) wait(p *peer, m message) {
	w := &wait{peer: p, id: m.id, op: m.op, key: m.key, since: time.Now()}
	s.waits[w] = true
	if s.lost != nil {
		s.answer(w, opLost, s.lost.encode())
		return
	}
	if w.gathers() {
		for r, have := range s.gathers[m.key].have {
			if !have && s.left[r] {
				s.answer(w, opTimeout, leftFailure(r, m.key))
				return
			}
		}
	}
	w.timer = time.AfterFunc(m.timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		absent, _ := s.missingRanks(w)
		if s.waits[w] && (w.op != opAwait || len(absent) > 0) {
			s.answer(w, opTimeout, s.timeoutFailure(w).encode())
		}
	})
}

// leftFailure returns the failure of requests that wait for a rank that has left.
func leftFailure(rank int, key string) []byte {
	return (&Failure{Rank: rank, Text: fmt.Sprintf("rendezvous: rank %d left before %q", rank, key)}).encode()
}

// timeoutFailure returns the failure of a request that timed out, with the ranks it waited for.
func (s *server) timeoutFailure(w *wait) *Failure {
	after := time.Since(w.since).Round(time.Millisecond)
	absent, late := s.missingRanks(w)
	switch {
	case len(absent) > 0:
		return &Failure{Kind: ErrTimeout, Rank: absent[0], Text: fmt.Sprintf("rendezvous: %s not joined at %s after %v (%d of %d ranks joined). try: start it with RANK=%d and the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT", have(absent), s.listen.Addr(), time.Since(s.began).Round(time.Millisecond), s.world-len(absent), s.world, absent[0])}
	case len(late) > 0:
		return &Failure{Kind: ErrTimeout, Rank: late[0], Text: fmt.Sprintf("rendezvous: %s not reached %q after %v; %d of %d ranks wait", have(late), w.key, after, s.world-len(late), s.world)}
	}
	return &Failure{Kind: ErrTimeout, Rank: -1, Text: fmt.Sprintf("rendezvous: no rank has set %q after %v", w.key, after)}
}

// missingRanks returns the ranks that have not joined, and the joined ranks that a request waits for.
func (s *server) missingRanks(w *wait) (absent, late []int) {
	for r := range s.world {
		if s.ranks[r] == nil && !s.left[r] {
			absent = append(absent, r)
		} else if g := s.gathers[w.key]; w.gathers() && g != nil && !g.have[r] {
			late = append(late, r)
		}
	}
	return absent, late
}

// have names up to eight ranks: "rank 3 has", "ranks 1, 2 have".
func have(ranks []int) string {
	sort.Ints(ranks)
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d has", ranks[0])
	}
	var names []string
	for _, r := range ranks[:min(8, len(ranks))] {
		names = append(names, strconv.Itoa(r))
	}
	more := ""
	if n := len(ranks) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "ranks " + strings.Join(names, ", ") + more + " have"
}
