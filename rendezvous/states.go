package rendezvous

import (
	"fmt"
	"hash/fnv"
	"time"

	"trireme/flight"
)

// stateOps is the number of operations in the states that ranks send.
const stateOps = 8

// record records that the rank has reached an AllGather or Await of key.
func (s *Store) record(key string) flight.Entry {
	if s.cfg.Recorder == nil {
		return flight.Entry{}
	}
	s.mu.Lock()
	g, known := s.recorded[key]
	if !known {
		h := fnv.New64a()
		h.Write([]byte("store " + key))
		ranks := make([]int, s.env.WorldSize)
		for r := range ranks {
			ranks[r] = r
		}
		g.group = s.cfg.Recorder.Group(h.Sum64(), "store", ranks)
	}
	n := g.next
	g.next++
	s.recorded[key] = g
	s.mu.Unlock()
	return g.group.Begin(flight.Op{Seq: n, Kind: flight.StoreGather, Tag: key, Peer: -1})
}

// recorded is a key of AllGather or Await in the recorder.
type recorded struct {
	group flight.Group
	next  uint64 // sequence number
}

// received stores the state of a rank. A malformed one is ignored: it only describes.
func (s *server) received(p *peer, b []byte) {
	state, err := flight.Parse(b)
	if err != nil || state.Rank != p.rank || state.Size != s.world {
		return
	}
	s.states[p.rank].State = state
	if s.cfg.Received != nil && !p.watchdog.process.here() {
		s.cfg.Received(p.rank, b)
	}
}

// noted is the rank and collective of the last notes about a late rank, and how many there were.
type noted struct {
	rank  int
	op    string
	notes int
}

// lateNotes are the times of a wait in a collective at which rank 0 says for whom all wait.
var lateNotes = [...]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// diagnose ends the job if its states show that it cannot continue, and notes a rank that is late.
func (s *server) diagnose() {
	if s.lost != nil || s.closed {
		return
	}
	p := flight.Diagnose(s.states, s.cfg.Timeout)
	if p.Verdict.Ends() {
		s.fail(&Failure{Kind: ErrLost, Rank: p.Rank, Text: p.Text})
		return
	}
	if p.Verdict != flight.Late || p.InStore { // waits in the store have notices of their own
		return
	}
	if s.noted.rank != p.Rank || s.noted.op != p.Op {
		s.noted = noted{rank: p.Rank, op: p.Op}
	}
	if n := s.noted.notes; n < len(lateNotes) && p.Waited >= lateNotes[n] && s.ranks[0] != nil {
		s.noted.notes++
		s.ranks[0].send(message{op: opNote, value: []byte(p.Text)})
	}
}

// lose fails the job because of a rank, with what the rank did last if it was on another machine. The states of this
// machine are in files, which are newer.
func (s *server) lose(p *peer, f *Failure) {
	if k := s.states[f.Rank].State; k != nil && !p.watchdog.process.here() {
		f.Text += "; " + k.LastSeen()
		states := make([]*flight.State, s.world)
		for r := range states {
			states[r] = s.states[r].State
		}
		if missed := flight.Missed(states, f.Rank); missed != "" {
			f.Text += "; " + missed
		}
	}
	s.fail(f)
}

// RankName names a rank with its host and pid at rank 0, which knows them, and with its number elsewhere.
func (s *Store) RankName(rank int) string {
	if s.server != nil {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		if p := s.server.ranks[rank]; p != nil {
			return p.watchdog.process.name(rank)
		}
	}
	return fmt.Sprintf("rank %d", rank)
}

// activityOf describes what the first of the ranks does, for a notice.
func (s *server) activityOf(ranks []int) string {
	if len(ranks) == 0 || s.states[ranks[0]].State == nil {
		return ""
	}
	return fmt.Sprintf(". rank %d %s", ranks[0], s.states[ranks[0]].Activity())
}
