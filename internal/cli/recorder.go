package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"trireme/collective"
	"trireme/flight"
	"trireme/internal/durable"
	"trireme/rendezvous"
)

// faults are the fault points of tests.
var faults struct {
	recorder func(rank int, r *flight.Recorder)
	world    func(rank int, w collective.World) collective.World
}

func newRecorder(env rendezvous.Env) *flight.Recorder {
	host, _ := os.Hostname() // may be empty
	r := flight.New(flight.Identity{Rank: env.Rank, Size: env.WorldSize, PID: os.Getpid(), Host: host, Run: env.RunID, Restart: env.RestartCount})
	if faults.recorder != nil {
		faults.recorder(env.Rank, r)
	}
	return r
}

// recordTo keeps the states of this process's ranks in files in dir, and at rank 0 those that ranks on other
// hosts send. Nobody waits for a rank that is alone.
func (p *process) recordTo(dir string) {
	for _, m := range p.conns {
		if m.env.WorldSize > 1 && m.states.start(dir) {
			if err := m.recorder.Attach(filepath.Join(dir, flight.FileName(m.env.Rank))); err != nil { // states are also sent
				m.note(fmt.Sprintf("the state of rank %d is not kept in a file: %v", m.env.Rank, err))
			}
		}
	}
}

// receivedStates writes the states that rank 0 receives from ranks on other hosts, which may not share the
// directory.
type receivedStates struct {
	mu    sync.Mutex
	dir   string // "": not yet known
	wrote map[int]time.Time
}

// receivedEvery is the time between two writes of a rank's state.
const receivedEvery = time.Second

func (s *receivedStates) start(dir string) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.dir == ""
	s.dir, s.wrote = dir, map[int]time.Time{}
	return first
}

func (s *receivedStates) write(rank int, state []byte) {
	s.mu.Lock()
	dir, due := s.dir, time.Since(s.wrote[rank]) >= receivedEvery
	if dir != "" && due {
		s.wrote[rank] = time.Now()
	}
	s.mu.Unlock()
	if dir != "" && due {
		go durable.WriteFile(filepath.Join(dir, receivedName(rank)), state) // on an error doctor job has an older one
	}
}

// receivedName is the base name of a state from another host.
func receivedName(rank int) string {
	return strings.TrimSuffix(flight.FileName(rank), ".state") + ".received.state"
}
