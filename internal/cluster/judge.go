package cluster

import (
	"fmt"
	"path/filepath"
	"time"

	"trireme/launch"
)

// verdict is the outcome of a generation: the end of the job, or a start with the hosts there are.
type verdict struct {
	result  *result // nil: start again
	counted bool    // as one of the restarts
	changed bool    // the hosts change
	cause   string  // a line for users
}

// notice is a host's record that a worker failed.
type notice struct {
	code     int
	revision uint64
}

// ending has the records at the end of a generation: each member has an end, or is lost.
type ending struct {
	*generation
	ends    map[string]end
	failing map[string]notice
	restart int           // --max-restarts
	wait    bool          // lost hosts are replaced
	lease   time.Duration // silence after which a host is lost
}

// judge decides what follows a generation. A lost host comes before failed workers, which it may have caused;
// among these the first in the store's order counts.
func (e *ending) judge() verdict {
	lost := e.lost()
	f, host, text := e.failure(lost)
	stopped := e.Stop != nil && !e.Stop.Reform
	code, all, ended := 0, true, false
	textCode := launch.CodeFailed
	for _, m := range e.Hosts {
		if got, ok := e.ends[m.ID]; ok {
			all = all && got.Code == launch.CodeDone
			if got.Text != "" && got.Code == launch.CodeNo {
				textCode = launch.CodeNo
			}
			if ended = ended || got.Ended; !got.Ended || stopped {
				code = max(code, got.Code)
			}
			if got.Killed {
				return verdict{result: &result{Code: launch.CodeInterrupted, Killed: true}}
			}
		}
	}
	if e.Stop == nil && f == nil && ended {
		f = &launch.Failure{Rank: -1, Ranks: e.Size, Code: launch.CodePeerLost, Why: "the workers were ended for a failure that no host reported"}
	}
	switch {
	case text != "":
		return verdict{result: &result{Code: textCode, Text: text}}
	case f == nil && (all || stopped || e.Stop == nil):
		return verdict{result: &result{Code: code}}
	case f == nil:
		return verdict{changed: true, cause: e.Stop.Host + " joins the job"}
	case !stopped && len(lost) > 0 && e.wait:
		return verdict{changed: true, cause: f.Error()}
	case !stopped && len(lost) == 0 && e.Restarts < e.restart && f.Retry():
		return verdict{counted: true, cause: fmt.Sprintf("%v. restarting (%d of %d)", f, e.Restarts+1, e.restart)}
	}
	f.Restarts = e.Restarts
	return verdict{result: &result{Code: f.Code, Failure: f, Host: host}}
}

// lost returns the members without an end.
func (e *ending) lost() (all []member) {
	for _, m := range e.Hosts {
		if _, ok := e.ends[m.ID]; !ok {
			all = append(all, m)
		}
	}
	return all
}

// failure returns the root cause of the generation's end and the id of its host, or the text of an error that
// is no worker's.
func (e *ending) failure(lost []member) (f *launch.Failure, id, text string) {
	if len(lost) > 0 {
		m := lost[0]
		f := &launch.Failure{Rank: -1, Ranks: m.Ranks, Host: m.Name, Code: launch.CodePeerLost,
			Why: fmt.Sprintf("host %s with %s is lost: its launcher ended, or host or network are down (no sign of life for %v)", m.Name, m.ranks(), e.lease)}
		if m.Logs != "" {
			f.Log = filepath.Join(m.Logs, launch.RankName(m.First)+".log")
		}
		f.Others = e.others(m.ID)
		return f, "", ""
	}
	var failed []member // in the order of their failures
	for _, m := range e.Hosts {
		switch got := e.ends[m.ID]; {
		case got.Text != "":
			return nil, "", fmt.Sprintf("host %s: %s", m.Name, got.Text)
		case got.Failure != nil:
			failed = append(failed, m)
		}
	}
	if len(failed) == 0 {
		return nil, "", ""
	}
	first := failed[0]
	for _, m := range failed[1:] { // a host whose ranks fail because of others comes after those
		got, best := e.ends[m.ID].Failure, e.ends[first.ID].Failure
		lost, bestLost := got.Code == launch.CodePeerLost, best.Code == launch.CodePeerLost
		sooner := e.at(m.ID) < e.at(first.ID) && (got.Code != best.Code || got.Code >= 128) // the first host's output is shown
		if bestLost && !lost || lost == bestLost && sooner {
			first = m
		}
	}
	for range failed { // follow reports about ranks of other hosts; they may form a cycle
		at := e.hostOf(e.ends[first.ID].Failure.Rank)
		if at == nil || at.ID == first.ID || e.ends[at.ID].Failure == nil || e.ends[at.ID].Failure.Code != launch.CodePeerLost {
			break
		}
		first = *at
	}
	own := *e.ends[first.ID].Failure
	if len(e.Hosts) == 1 {
		return &own, first.ID, ""
	}
	at := first
	if m := e.hostOf(own.Rank); m != nil {
		at = *m
	}
	own.Host = at.Name
	if own.Log == "" && own.Stack == "" && at.Logs != "" {
		own.Log = filepath.Join(at.Logs, launch.RankName(own.Rank)+".log")
	}
	own.Others += e.others(first.ID)
	if at.ID != first.ID && e.ends[at.ID].Code != launch.CodeDone {
		own.Others-- // the rank itself
	}
	return &own, first.ID, ""
}

// at is the revision of a host's first failure.
func (e *ending) at(id string) uint64 {
	if n, ok := e.failing[id]; ok {
		return n.revision
	}
	return 1 << 62
}

// others returns the number of ranks on other hosts that did not end with success.
func (e *ending) others(id string) (n int) {
	for _, m := range e.Hosts {
		if got, ok := e.ends[m.ID]; m.ID != id && ok && got.Code != launch.CodeDone {
			n += m.Ranks
		}
	}
	return n
}
