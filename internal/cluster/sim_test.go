package cluster

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"trireme/launch"
)

// A simulation runs the machines of a job on a simulated store, clock and network, with faults that depend on
// a seed alone, and checks after each event what the protocol promises.

var (
	simSeeds = flag.Int("sim.seeds", 1000, "number of simulations")
	simSeed  = flag.Uint64("sim.seed", 0, "run only this simulation, and print its events")
)

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		s := newSim(*simSeed)
		s.trace = t.Logf
		if err := s.run(); err != nil {
			t.Error(err)
		}
		return
	}
	outcomes := map[string]int{}
	for seed := range uint64(*simSeeds) {
		s := newSim(seed + 1)
		if err := s.run(); err != nil {
			t.Fatalf("seed %d (%s): %v. replay: go test ./internal/cluster -run TestSimulation -sim.seed %d -v", seed+1, s.scenario(), err, seed+1)
		}
		outcomes[s.outcome]++
	}
	t.Logf("%d simulations: %v", *simSeeds, outcomes)
	for _, want := range []string{"done", "failed", "lost", "stopped", "done after restarts", "done after a lost host"} {
		if outcomes[want] == 0 && *simSeeds >= 1000 {
			t.Errorf("no simulation ended as %q: %v", want, outcomes)
		}
	}
}

// sim is one job.
type sim struct {
	seed   uint64
	r      *rand.Rand
	now    time.Duration
	queue  []*simEvent
	serial int
	trace  func(format string, args ...any)

	settings  settings
	silent    bool // workers do not notice that others end
	launchers []*simLauncher
	faultsEnd time.Duration
	quiet     bool // no more faults

	// The store.
	revision uint64
	keys     map[string]simEntry
	leases   map[string]time.Duration // expiry by key

	// The history.
	remaining time.Duration // work that is not in a checkpoint
	gens      map[int]*simGen
	current   int
	failures  int // of workers
	hostsLost int
	signaled  bool
	fatal     bool // a worker exited with a code after which nothing restarts
	outcome   string
	result    *result
}

type simEvent struct {
	at     time.Duration
	serial int
	f      func()
}

type simEntry struct {
	value    []byte
	revision uint64
}

// simGen is a generation as the first write of its record has it, and what its workers do.
type simGen struct {
	record  generation
	running map[string]*simLauncher // by the host's id
	started map[string]bool
	ends    map[string]int // codes, by the host's id
	broken  bool
	begunAt time.Duration // when its record was written
	begun   time.Duration // when all ran
	failed  map[int]int   // codes of failed workers, by rank
}

// simLauncher is a host with the current process of its launcher.
type simLauncher struct {
	index   int
	m       *machine // nil: not running
	life    int      // counts processes
	began   time.Duration
	cut     bool
	id      string // of its registration
	renewed time.Duration
	run     int             // the generation of its workers, or -1
	failure *launch.Failure // of its workers
	result  *result

	// The stream of changes: when the last event on its way arrives, and those that a cut link holds.
	arrives time.Duration
	held    []event
}

func newSim(seed uint64) *sim {
	s := &sim{seed: seed, r: rand.New(rand.NewPCG(seed, 1)), keys: map[string]simEntry{}, leases: map[string]time.Duration{}, gens: map[int]*simGen{}, current: -1, trace: func(string, ...any) {}}
	hosts := 1 + s.r.IntN(4)
	s.settings = settings{least: hosts, most: hosts, restarts: s.r.IntN(4), runID: "job", store: "the store", grace: time.Second,
		Conf: Conf{JoinTimeout: time.Minute, LastCall: 3 * time.Second, Close: time.Second, Lease: 2 * time.Second, Return: 20 * time.Second}}
	if s.r.IntN(3) > 0 {
		s.settings.least = 1 + s.r.IntN(hosts)
		s.settings.elastic = s.settings.least < hosts
	}
	s.silent = s.r.IntN(2) == 0
	s.remaining = time.Duration(1+s.r.IntN(30)) * time.Second
	s.faultsEnd = time.Duration(s.r.IntN(40)) * time.Second
	for i := range hosts {
		s.launchers = append(s.launchers, &simLauncher{index: i, run: -1})
	}
	return s
}

func (s *sim) scenario() string {
	return fmt.Sprintf("--nnodes %s, %d restarts, silent %v", nnodes(s.settings.least, s.settings.most), s.settings.restarts, s.silent)
}

func (s *sim) after(d time.Duration, f func()) {
	s.serial++
	s.queue = append(s.queue, &simEvent{s.now + d, s.serial, f})
}

// upTo returns a random duration.
func (s *sim) upTo(d time.Duration) time.Duration { return time.Duration(s.r.Int64N(int64(d))) }

type violation string

func (s *sim) violated(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

const callerEnds = "the caller ends"

const simEnd = 10 * time.Minute

func (s *sim) run() (err error) {
	defer func() {
		if e := recover(); e != nil {
			v, ok := e.(violation)
			if !ok {
				panic(e)
			}
			err = fmt.Errorf("at %v: %s", s.now, string(v))
		}
	}()
	for _, l := range s.launchers {
		s.after(s.upTo(3*time.Second), func() { s.boot(l) })
	}
	s.after(s.upTo(5*time.Second), s.fault)
	s.after(0, s.expire)
	for len(s.queue) > 0 && s.now < simEnd {
		next := 0
		for i, e := range s.queue {
			if c := cmp.Compare(e.at, s.queue[next].at); c < 0 || c == 0 && e.serial < s.queue[next].serial {
				next = i
			}
		}
		e := s.queue[next]
		s.queue = slices.Delete(s.queue, next, next+1)
		s.now = e.at
		e.f()
		if s.over() {
			break
		}
	}
	s.judge()
	return nil
}

// over reports whether faults have ended and no launcher runs.
func (s *sim) over() bool {
	return s.quiet && s.now > s.faultsEnd+11*time.Second && !slices.ContainsFunc(s.launchers, func(l *simLauncher) bool { return l.m != nil })
}

// boot starts a launcher's process.
func (s *sim) boot(l *simLauncher) {
	if l.m != nil || s.result != nil || l.result != nil {
		return
	}
	l.life++
	l.began, l.id, l.run, l.result = s.now, "", -1, nil
	self := host{Name: fmt.Sprint("n", l.index), Rank: -1, Ranks: 1 + l.index%2, Least: s.settings.least, Most: s.settings.most}
	l.m = newMachine(s.settings, self)
	s.trace("%v boot %d", s.now, l.index)
	s.watch(l)
	s.inform(l, 0, tick{})
}

// inform sends an event to a process, unless it has ended.
func (s *sim) inform(l *simLauncher, delay time.Duration, e event) {
	life := l.life
	s.after(delay, func() {
		if l.m == nil || l.life != life {
			return
		}
		s.step(l, e)
	})
}

func (s *sim) step(l *simLauncher, e event) {
	actions, wake := l.m.step(s.now-l.began, e)
	if _, isTick := e.(tick); !isTick || len(actions) > 0 {
		s.trace("%v n%d %T%+v -> %v", s.now, l.index, e, short(e), show(actions))
	}
	if wake > 0 {
		s.inform(l, wake-(s.now-l.began), tick{})
	}
	for _, a := range actions {
		s.act(l, a)
	}
}

func short(e event) any {
	if c, ok := e.(changed); ok {
		return fmt.Sprintf("{%s %s @%d}", c.key, c.value, c.revision)
	}
	return e
}

func show(actions []action) (all []string) {
	for _, a := range actions {
		switch a := a.(type) {
		case write:
			all = append(all, fmt.Sprintf("write %s %s @%d", a.key, a.value, a.revision))
		default:
			all = append(all, fmt.Sprintf("%T%+v", a, a))
		}
	}
	return all
}

func (s *sim) act(l *simLauncher, a action) {
	life := l.life
	later := func(f func()) { // a message to the store, which a cut link or a crash may drop
		d := s.upTo(100 * time.Millisecond)
		if l.cut {
			return
		}
		s.after(d, func() {
			if !l.cut {
				f()
			}
		})
	}
	switch a := a.(type) {
	case register:
		later(func() {
			if l.m == nil || l.life != life {
				return
			}
			h := l.m.self
			h.ID = fmt.Sprintf("n%d-%d", l.index, s.revision)
			h.Order = s.revision + 1
			s.put(hostsPrefix+h.ID, encode(h))
			s.leases[hostsPrefix+h.ID] = s.now + s.settings.Lease
			l.id, l.renewed = h.ID, s.now
			s.inform(l, s.upTo(100*time.Millisecond), registered{h})
			s.renew(l, h.ID)
		})
	case leave:
		id := l.id
		later(func() { s.remove(hostsPrefix + id) })
	case write:
		later(func() { s.write(a) })
	case form:
		a.generation.MasterPort = 1
		later(func() { s.write(write{generationKey, encode(&a.generation), a.revision}) })
	case start:
		s.start(l, a)
	case cancel:
		s.cancel(l)
	case forward:
		s.forward(l, a.signal)
	case finish:
		if l.run >= 0 {
			s.violated("host n%d finished while it ran generation %d", l.index, l.run)
		}
		if l.m = nil; a.result.Text != callerEnds { // a caller may start another launcher
			l.result = a.result
		}
		s.trace("%v n%d result %+v", s.now, l.index, *a.result)
	}
}

// put changes a key and notifies the watches.
func (s *sim) put(key string, value []byte) {
	s.revision++
	if value == nil {
		delete(s.keys, key)
	} else {
		s.keys[key] = simEntry{value, s.revision}
	}
	if key == generationKey {
		s.checkRecord(value)
	}
	for _, l := range s.launchers {
		s.notify(l, changed{key, value, s.revision})
	}
}

// write does a compare-and-swap.
func (s *sim) write(w write) {
	if e := s.keys[w.key]; e.revision == w.revision {
		s.put(w.key, w.value)
	}
}

func (s *sim) remove(key string) {
	if _, ok := s.keys[key]; ok {
		delete(s.leases, key)
		s.put(key, nil)
	}
}
