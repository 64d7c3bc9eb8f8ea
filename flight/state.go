package flight

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// State is the state of a rank. Times are on the rank's clock.
type State struct {
	Identity
	Started time.Time
	Alive   time.Time // of the last Beat, operation or end
	Ended   bool
	Code    int // exit code, if Ended

	Ticks    uint64        // of progress
	Progress time.Time     // of the last Tick
	CPU      time.Duration // of the process
	Busy     time.Time     // of the last Beat after which the process had used CPU time
	Step     int64

	Doing  []Doing // activities, the outermost first
	Groups []GroupState
	Ops    []OpState // the last operations, oldest first
}

// Doing is an activity.
type Doing struct {
	Activity Activity
	Detail   string
	Since    time.Time
}

// GroupState is a group and its rank's position in the group's operations.
type GroupState struct {
	Key                 uint64
	Name                string
	First, Stride, Size int    // its ranks in the world; Stride 0: irregular
	Started, Finished   uint64 // operations
}

// Has reports whether a rank of the world is known to be in the group.
func (g *GroupState) Has(rank int) bool {
	d := rank - g.First
	return d == 0 || g.Stride > 0 && d > 0 && d%g.Stride == 0 && d/g.Stride < g.Size
}

// OpState is an operation in the ring.
type OpState struct {
	Op
	Group      int // index in Groups; -1: unknown
	Start, End time.Time
	Running    bool
}

// Snapshot returns the state with the last ops operations, for Parse.
func (r *Recorder) Snapshot(ops int) []byte {
	if r == nil {
		return nil
	}
	begun, groups := r.words().get(wBegun), int(r.words().get(wGroups))
	n := int(min(begun, uint64(min(ops, ringCap))))
	out := make(words, headWords, headWords+groups*groupWords+n*opWords)
	for range 100 {
		v := r.words().get(wActivities)
		for i := range out {
			out[i] = r.words().get(i)
		}
		if v&1 == 0 && r.words().get(wActivities) == v {
			break
		}
	}
	for i := range groups * groupWords {
		out = append(out, r.words().get(headWords+i))
	}
	for i := begun - uint64(n); i < begun; i++ {
		at := r.op(i)
		for k := range opWords {
			out = append(out, r.words().get(at+k))
		}
		if last := out[len(out)-opWords:]; last[oVersion] != 2*i+2 || r.words().get(at+oVersion) != 2*i+2 {
			last[oVersion] = 1 // being written, or replaced
		}
	}
	out[wGroups], out[wGroupCap] = uint64(groups), uint64(groups)
	out[wBegun], out[wRingCap] = uint64(n), uint64(n)
	out[wActivities] &^= 1
	return out.bytes()
}

var errMalformed = errors.New("not the state of a rank")

// Parse reads a file or a snapshot. It returns an error for anything else; strings are printable.
func Parse(b []byte) (*State, error) {
	if len(b) < 8*headWords || len(b) > 8*maxWords || len(b)%8 != 0 {
		return nil, errMalformed
	}
	w := make(words, len(b)/8)
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	if w[wMagic] != magic {
		return nil, errMalformed
	}
	if w[wVersion] != version {
		return nil, fmt.Errorf("version %d of a rank's state, this program reads version %d", w[wVersion], version)
	}
	groups, ring := w[wGroupCap], w[wRingCap]
	if groups > groupCap || ring > ringCap || uint64(len(w)) != headWords+groups*groupWords+ring*opWords || w[wGroups] > groups || w[wDepth] > maxDepth {
		return nil, errMalformed
	}
	s := &State{
		Identity: Identity{Rank: int(uint32(w[wRank])), Size: int(w[wRank] >> 32), PID: int(uint32(w[wPID])), Restart: int(w[wPID] >> 32), Host: w.string(wHost, hostBytes), Run: w.string(wRun, runBytes)},
		Started:  when(w[wStarted]), Alive: when(w[wAlive]), Ended: w[wEnded] != 0, Code: int(uint32(w[wEnded])) - 1,
		Ticks: w[wTicks], Progress: when(w[wProgress]), CPU: time.Duration(w[wCPU]), Busy: when(w[wBusy]), Step: int64(w[wStep]),
	}
	if !s.Ended {
		s.Code = 0
	}
	if s.Size < 1 || s.Size > 1<<24 || s.Rank >= s.Size || s.PID > 1<<30 {
		return nil, errMalformed
	}
	if w[wActivities]&1 == 0 {
		for i := range int(w[wDepth]) {
			at := wLevels + i*levelWords
			s.Doing = append(s.Doing, Doing{Activity(min(w[at+lKind], uint64(numActivities))), w.string(at+lDetail, detailBytes), when(w[at+lSince])})
		}
	}
	for i := range int(w[wGroups]) {
		g := w[headWords+i*groupWords:][:groupWords]
		if g[gFirst] >= uint64(s.Size) || g[gStride] > uint64(s.Size) || g[gSize] < 1 || g[gSize] > uint64(s.Size) {
			return nil, errMalformed
		}
		s.Groups = append(s.Groups, GroupState{
			Key: g[gKey], Name: g.string(gName, nameBytes), First: int(g[gFirst]), Stride: int(g[gStride]), Size: int(g[gSize]),
			Started: g[gStarted], Finished: g[gFinished],
		})
	}
	if err := s.parseOps(w[headWords+int(groups)*groupWords:]); err != nil {
		return nil, err
	}
	s.Alive = latest(s.Alive, s.Progress)
	return s, nil
}

func (s *State) parseOps(ring words) error {
	type numbered struct {
		n uint64
		OpState
	}
	var ops []numbered
	for ; len(ring) > 0; ring = ring[opWords:] {
		o := ring[:opWords]
		if o[oVersion]&1 == 1 || o[oVersion] == 0 {
			continue // being written, or never
		}
		group, peer := int(uint32(o[oWhere]))-1, int(o[oWhere]>>32)-1
		if group >= len(s.Groups) || peer >= s.Size {
			return errMalformed
		}
		ops = append(ops, numbered{o[oVersion], OpState{
			Op:    Op{Seq: o[oSeq], Kind: o.string(oKind, kindBytes), DType: o.string(oDType, 8), Count: int64(o[oCount]), Tag: o.string(oTag, tagBytes), Peer: peer},
			Group: group, Start: when(o[oStart]), End: when(o[oEnd]), Running: o[oEnd] == 0,
		}})
	}
	slices.SortFunc(ops, func(a, b numbered) int {
		if a.n < b.n {
			return -1
		}
		return 1
	})
	for _, o := range ops {
		s.Ops = append(s.Ops, o.OpState)
		s.Alive = latest(s.Alive, latest(o.Start, o.End))
	}
	return nil
}

func when(ns uint64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// doing returns the innermost activity.
func (s *State) doing() Doing {
	if len(s.Doing) == 0 {
		return Doing{Since: s.Started}
	}
	return s.Doing[len(s.Doing)-1]
}

// group returns the rank's state in the group of a key, or nil.
func (s *State) group(key uint64) *GroupState {
	for i := range s.Groups {
		if s.Groups[i].Key == key {
			return &s.Groups[i]
		}
	}
	return nil
}

// open returns the oldest running operation, or nil.
func (s *State) open() *OpState {
	for i := range s.Ops {
		if s.Ops[i].Running && s.Ops[i].Group >= 0 {
			return &s.Ops[i]
		}
	}
	return nil
}

// blocked returns the operation that the rank waits in, or nil if it does something else. Operations in the
// background (the communication stream) do not block it.
func (s *State) blocked() *OpState {
	if a := s.doing().Activity; a != None && a != Waiting {
		return nil
	}
	return s.open()
}
