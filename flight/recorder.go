package flight

import (
	"sync"
	"sync/atomic"
	"time"
)

// Identity describes the rank of a Recorder.
type Identity struct {
	Rank, Size int
	PID        int
	Host, Run  string // Run is the id of the job
	Restart    int    // restart count of the job
}

// Recorder is the state of one rank. Operations of different groups, Tick and Snapshot may be concurrent. The
// activities have one writer: the goroutine that trains.
type Recorder struct {
	p       atomic.Pointer[[maxWords]uint64]
	mu      sync.Mutex
	depth   int // of activities; may exceed maxDepth
	onEnter func(a Activity, detail string)
	beat    struct {
		cpu time.Duration
		at  time.Time
	}
}

// New returns a Recorder in memory.
func New(id Identity) *Recorder {
	r := &Recorder{}
	r.p.Store(new([maxWords]uint64))
	w, now := r.words(), uint64(time.Now().UnixNano())
	w.set(wVersion, version)
	w.set(wRank, uint64(uint32(id.Rank))|uint64(id.Size)<<32)
	w.set(wPID, uint64(uint32(id.PID))|uint64(id.Restart)<<32)
	w.setString(wHost, hostBytes, id.Host)
	w.setString(wRun, runBytes, id.Run)
	w.set(wGroupCap, groupCap)
	w.set(wRingCap, ringCap)
	for _, i := range []int{wStarted, wAlive, wProgress, wBusy} {
		w.set(i, now)
	}
	w.set(wMagic, magic)
	return r
}

func (r *Recorder) words() words { return r.p.Load()[:] }

// Close records that the rank has ended with an exit code.
func (r *Recorder) Close(code int) {
	if r != nil {
		r.words().set(wAlive, uint64(time.Now().UnixNano()))
		r.words().set(wEnded, uint64(1+code))
	}
}

// Tick records progress: the rank is not hung.
func (r *Recorder) Tick() {
	if r != nil {
		r.tick(uint64(time.Now().UnixNano()))
	}
}

func (r *Recorder) tick(now uint64) {
	r.words().add(wTicks, 1)
	r.words().set(wProgress, now)
}

// Step records the number of the current step.
func (r *Recorder) Step(n int64) {
	if r != nil {
		r.words().set(wStep, uint64(n))
		r.Tick()
	}
}

// Beat records that the process lives, and its CPU time. Call it several times a second from one goroutine.
func (r *Recorder) Beat() {
	if r == nil {
		return
	}
	now, cpu := time.Now(), cpuTime()
	if spent := cpu - r.beat.cpu; spent > now.Sub(r.beat.at)/4 { // a quarter of a processor
		r.words().set(wBusy, uint64(now.UnixNano()))
	}
	r.beat.cpu, r.beat.at = cpu, now
	r.words().set(wCPU, uint64(cpu))
	r.words().set(wAlive, uint64(now.UnixNano()))
}

// Group is a group of ranks of a Recorder.
type Group struct {
	r     *Recorder
	index int // among the recorded groups; -1: not recorded
}

// Group records a group of ranks in the world, once. All its ranks pass the same key.
func (r *Recorder) Group(key uint64, name string, ranks []int) Group {
	if r == nil {
		return Group{index: -1}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := int(r.words().get(wGroups))
	for i := range n {
		if r.words().get(r.group(i)+gKey) == key {
			return Group{r, i}
		}
	}
	if n == groupCap {
		return Group{r, -1}
	}
	at := r.group(n)
	stride := 0
	if len(ranks) > 1 {
		stride = ranks[1] - ranks[0]
	}
	for i := range ranks {
		if ranks[i] != ranks[0]+i*stride {
			stride = 0
		}
	}
	r.words().set(at+gKey, key)
	r.words().set(at+gFirst, uint64(ranks[0]))
	r.words().set(at+gStride, uint64(stride))
	r.words().set(at+gSize, uint64(len(ranks)))
	r.words().setString(at+gName, nameBytes, name)
	r.words().set(wGroups, uint64(n+1))
	return Group{r, n}
}

func (r *Recorder) group(i int) int { return headWords + i*groupWords }

func (r *Recorder) op(n uint64) int {
	return headWords + groupCap*groupWords + int(n%ringCap)*opWords
}

// Op describes a collective operation.
type Op struct {
	Seq   uint64 // in the group, from 0; of a send or receive: between the two ranks
	Kind  string // all_gather
	DType string
	Count int64
	Tag   string // the unit
	Peer  int    // rank in the world of the other side of a send or receive; -1: all ranks of the group
}

// Entry is an operation in the ring.
type Entry struct {
	g  Group
	n  uint64
	op uint64 // sequence number
	to int    // peer
}

// Begin records that the rank has reached an operation.
func (g Group) Begin(o Op) Entry {
	if g.r == nil {
		return Entry{}
	}
	w, now := g.r.words(), uint64(time.Now().UnixNano())
	n := w.add(wBegun, 1) - 1
	at := g.r.op(n)
	w.set(at+oVersion, 2*n+1)
	w.set(at+oWhere, uint64(uint32(g.index+1))|uint64(uint32(o.Peer+1))<<32)
	w.set(at+oSeq, o.Seq)
	w.set(at+oCount, uint64(o.Count))
	w.set(at+oStart, now)
	w.set(at+oEnd, 0)
	w.setString(at+oKind, kindBytes, o.Kind)
	w.setString(at+oDType, 8, o.DType)
	w.setString(at+oTag, tagBytes, o.Tag)
	w.set(at+oVersion, 2*n+2)
	if g.index >= 0 && o.Peer < 0 {
		w.set(g.r.group(g.index)+gStarted, o.Seq+1)
	}
	g.r.tick(now)
	return Entry{g, n, o.Seq, o.Peer}
}

// End records that the operation is done. An operation that failed does not end.
func (e Entry) End() {
	if e.g.r == nil {
		return
	}
	w, now := e.g.r.words(), uint64(time.Now().UnixNano())
	if at := e.g.r.op(e.n); w.get(at+oVersion) == 2*e.n+2 { // else a later operation has replaced it
		w.set(at+oEnd, now)
	}
	if e.g.index >= 0 && e.to < 0 {
		w.set(e.g.r.group(e.g.index)+gFinished, e.op+1)
	}
	e.g.r.tick(now)
}
