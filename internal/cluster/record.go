package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"trireme/launch"
)

// The keys of a job in the launchers' store, below the job's prefix. Values are JSON.
const (
	generationKey = "generation" // a generation, changed by compare-and-swap only
	hostsPrefix   = "hosts/"     // ID: a host, with a lease
	failingPrefix = "failing/"   // NUMBER/ID: the exit code of the first worker that failed on a host
	endsPrefix    = "ends/"      // NUMBER/ID: an end
)

// host is a launcher that takes part, or wants to.
type host struct {
	ID    string // of this registration: a launcher that was lost and returns has another one
	Name  string
	Order uint64 // of joining: increases with each registration
	Rank  int    // --node-rank, or -1
	Ranks int    // ranks that it runs
	Addr  string // at which other hosts reach it
	Logs  string // directory of its workers' logs, or ""

	Least, Most int // --nnodes, for comparison
}

// generation is one start of all workers, and what has become of it. Of all records only this one changes:
// each change has one author, chosen by the store.
type generation struct {
	Number     int
	Restarts   int // because of failed workers, before this generation
	RunID      string
	Hosts      []member // in the order of ranks
	Size       int      // ranks
	FirstSize  int      // of the first generation
	MasterAddr string
	MasterPort int
	Cause      string  `json:",omitempty"` // why the previous generation ended; a line for users
	Stop       *stop   `json:",omitempty"` // a request to all hosts
	Result     *result `json:",omitempty"` // the end of the job
}

// member is a host in a generation.
type member struct {
	ID, Name     string
	First, Ranks int
	Logs         string
}

// stop asks the workers of a generation to stop.
type stop struct {
	Signal syscall.Signal
	Kill   bool   // at once: a second SIGINT
	Reform bool   // to start again with other hosts
	Host   string // on which it was requested
}

// end is how the workers of one host ended.
type end struct {
	Code    int
	Failure *launch.Failure `json:",omitempty"`
	Text    string          `json:",omitempty"` // of another error, after which the job ends
	Ended   bool            // its workers were ended because of another host
	Killed  bool            // by a second SIGINT
}

// result is the end of the job, the same for all launchers.
type result struct {
	Code    int
	Failure *launch.Failure `json:",omitempty"`
	Text    string          `json:",omitempty"` // of an error that is no worker's failure
	Host    string          `json:",omitempty"` // ID of the host of Failure, whose launcher has shown its output
	Killed  bool
}

// describe returns a line about host i of a generation.
func (g *generation) describe(i int) string {
	var all []string
	for _, h := range g.Hosts[:min(len(g.Hosts), 8)] {
		all = append(all, h.Name)
	}
	if len(g.Hosts) > 8 {
		all = append(all, "...")
	}
	h := g.Hosts[i]
	return fmt.Sprintf("host %d of %d (%s) has %s of %d; MASTER_ADDR=%s MASTER_PORT=%d", i, len(g.Hosts), strings.Join(all, ", "), h.ranks(), g.Size, g.MasterAddr, g.MasterPort)
}

// ranks is "rank 3" or "ranks 2 to 3".
func (h *member) ranks() string {
	if h.Ranks == 1 {
		return fmt.Sprintf("rank %d", h.First)
	}
	return fmt.Sprintf("ranks %d to %d", h.First, h.First+h.Ranks-1)
}

// index returns the position of a host in a generation, or -1.
func (g *generation) index(id string) int {
	if g == nil {
		return -1
	}
	return slices.IndexFunc(g.Hosts, func(h member) bool { return h.ID == id })
}

// hostOf returns the member that has a rank, or nil.
func (g *generation) hostOf(rank int) *member {
	for i := range g.Hosts {
		if h := &g.Hosts[i]; rank >= h.First && rank < h.First+h.Ranks {
			return h
		}
	}
	return nil
}

// recordKey returns the key of a host's record about a generation.
func recordKey(prefix string, number int, id string) string {
	return prefix + strconv.Itoa(number) + "/" + id
}

// encode returns the JSON of a record, which always succeeds for these types.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("cluster: %T: %v", v, err))
	}
	return b
}

// names joins the names of hosts.
func names(hosts []host) string {
	var all []string
	for _, h := range hosts {
		all = append(all, h.Name)
	}
	return strings.Join(all, ", ")
}
