package verify

import (
	"fmt"
	"slices"
	"strings"

	"trireme/internal/conf"
	"trireme/parallel"
	"trireme/train"
)

// Kind names the change of a trial.
type Kind string

const (
	Reference    Kind = "reference"
	Ranks        Kind = "ranks" // and strategies
	Threads      Kind = "threads"
	Transport    Kind = "transport"
	Recompute    Kind = "recompute"
	Offload      Kind = "offload"
	Resume       Kind = "resume"
	MicroBatches Kind = "micro_batches"
)

// Kinds lists the kinds of trials beside the reference, in the order of the report.
func Kinds() []Kind {
	return []Kind{Ranks, Threads, Transport, Recompute, Offload, Resume, MicroBatches}
}

// Experiment describes a proof.
type Experiment struct {
	Config     train.Config // with Divide's batches; number of ranks and mesh are the trials'
	MicroBatch int          // training.micro_batch_size before Divide
	Worlds     []int        // ascending; the reference has the first
	Strategies []string     // names of package parallel
	Kinds      []Kind
	Steps      int // compared, at least MinSteps
	Layers     int // of the model
	Threads    int // of the reference's ranks, on cpu
}

// MinSteps is the number of steps in which a run can stop three times.
const MinSteps = 4

// Part is one start of a run.
type Part struct {
	World  int
	Config train.Config
	Until  int // the step after which it stops
}

// Trial is a run to compare with the reference: one start, or several. Each resumes the one before.
type Trial struct {
	Kind    Kind
	Differs string // what it differs in
	Parts   []Part
	// Why is the reason for which its bits may differ; "": they are promised.
	Why string
	// Tolerance is the largest relative difference of a loss or gradient norm; 0: every bit is compared.
	Tolerance float64
}

func (t Trial) String() string { return string(t.Kind) + ": " + t.Differs }

// Trials returns the runs of the proof; the reference is the first.
func (e Experiment) Trials() []Trial {
	reference := e.reference()
	out := []Trial{{Kind: Reference, Differs: ranks(reference.World) + ", " + reference.Config.Parallel.Strategy, Parts: []Part{reference}}}
	seen := map[string]bool{"": true} // the reference
	for _, k := range e.Kinds {
		var some []Trial
		switch k {
		case Ranks:
			some = single(k, e.worlds())
		case Threads:
			some = single(k, e.threads())
		case Transport:
			some = single(k, e.transports())
		case Recompute:
			some = single(k, e.recomputations())
		case Offload:
			some = single(k, e.offloads())
		case Resume:
			some = e.resumes()
		case MicroBatches:
			some = e.microBatches()
		}
		for _, t := range some {
			if len(t.Parts) == 1 {
				t.Differs = e.differs(t.Parts[0])
			}
			if t.Why == "" {
				t.Why = e.why(t)
			}
			if !seen[t.Differs] {
				seen[t.Differs] = true
				out = append(out, t)
			}
		}
	}
	return out
}

// single returns a trial of one start for each part.
func single(k Kind, parts []Part) (out []Trial) {
	for _, p := range parts {
		out = append(out, Trial{Kind: k, Parts: []Part{p}})
	}
	return out
}

func (e Experiment) reference() Part { return e.at(e.Worlds[0], e.Config.Parallel.Strategy) }

// several is the reference's job on several ranks, or on one if the experiment has no others.
func (e Experiment) several() Part {
	world := e.Worlds[0]
	for _, w := range e.Worlds {
		if world == 1 {
			world = w
		}
	}
	return e.at(world, e.Config.Parallel.Strategy)
}

// at is the job on world ranks with a strategy. Settings that the strategy or the number of ranks rules out are reset.
func (e Experiment) at(world int, strategy string) Part {
	c := e.Config
	s, _ := parallel.ParseStrategy(strategy) // checked by the caller
	shard := world
	c.Parallel.Strategy, c.Parallel.Mesh = s.Name, parallel.MeshConfig{}
	if s.Replicas && replicates(world) {
		shard = world / 2
		c.Parallel.Mesh = parallel.MeshConfig{Replicate: 2, Shard: shard}
	}
	if n := int(c.Parallel.ReshardAfterForward); n > 1 && shard%n != 0 {
		c.Parallel.ReshardAfterForward = parallel.ReshardAlways
	}
	if !s.Params {
		c.Offload.Params.Device = parallel.OffloadNone
	}
	return Part{World: world, Config: c, Until: e.Steps}
}

// replicates reports whether ranks can be two replicas of several shards.
func replicates(world int) bool { return world >= 4 && world%2 == 0 }

// worlds are the numbers of ranks with each strategy. One rank computes the same with all of them: it has the least and
// the most sharded one.
func (e Experiment) worlds() (out []Part) {
	for _, w := range e.Worlds {
		for i, name := range e.Strategies {
			s, _ := parallel.ParseStrategy(name)
			if s.Replicas && !replicates(w) || w == 1 && i > 0 && i < len(e.Strategies)-1 {
				continue
			}
			out = append(out, e.at(w, name))
		}
	}
	return out
}

func (e Experiment) threads() (out []Part) {
	if e.Config.Device.Name.Accelerator() {
		return nil
	}
	for _, n := range []int{1, 2, 3} {
		if n != e.Threads {
			p := e.reference()
			p.Config.Device.Threads = n
			out = append(out, p)
		}
	}
	return out
}

func (e Experiment) transports() []Part {
	p := e.several()
	if p.World == 1 || e.Config.Device.Name.Accelerator() {
		return nil
	}
	if p.Config.Parallel.Backend = "tcp"; e.Config.Parallel.Backend == "tcp" {
		p.Config.Parallel.Backend = "shm"
	}
	return []Part{p}
}

// differs describes a start by its ranks and keys, as far as they differ from the reference.
func (e Experiment) differs(p Part) string {
	var out []string
	r := e.reference()
	if p.World != r.World {
		out = append(out, ranks(p.World))
	}
	var nodes []string
	keys := map[string][]string{}
	for _, c := range conf.Diff(r.Config, p.Config) {
		node, key := c.Path[:strings.LastIndexByte(c.Path, '.')], c.Path[strings.LastIndexByte(c.Path, '.')+1:]
		if keys[node] == nil {
			nodes = append(nodes, node)
		}
		keys[node] = append(keys[node], key+": "+c.To)
	}
	for _, n := range nodes {
		if k := keys[n]; len(k) > 1 {
			out = append(out, n+": {"+strings.Join(k, ", ")+"}")
		} else {
			out = append(out, n+"."+k[0])
		}
	}
	return strings.Join(out, ", ")
}

// why returns the reason for which a trial may have other bits than the reference.
func (e Experiment) why(t Trial) string {
	r := e.reference()
	for _, p := range t.Parts {
		switch {
		case p.World == r.World && p.Config.Parallel.Strategy == r.Config.Parallel.Strategy:
		case e.Config.Device.Name.Accelerator():
			return fmt.Sprintf("on %s sums of several ranks have another order", e.Config.Device.Name)
		case !e.Config.Parallel.WorldInvariant && slices.ContainsFunc([]Part{r, p}, sumsByRank):
			return "parallel.world_invariant: false sums the gradients of a rank first"
		}
	}
	return ""
}

// sumsByRank reports whether a job without parallel.world_invariant has sums that depend on the number of ranks.
func sumsByRank(p Part) bool {
	s, _ := parallel.ParseStrategy(p.Config.Parallel.Strategy)
	return p.World > 1 && (!s.Grads || s.Replicas)
}

func ranks(n int) string { return count(n, "rank") }

// count returns n with the noun, in the plural unless n is 1.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
