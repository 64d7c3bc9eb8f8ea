package planner

import (
	"context"
	"fmt"
	"math"

	"trireme/fault"
)

// Reach is the share of data-sheet rates that predictions assume. The shares are assumptions, not measurements:
// large products and copies reach about these, small ones less.
var Reach = struct{ Products, Memory, Link float64 }{0.6, 0.8, 0.8}

// Hardware is the rates of one rank for a prediction.
type Hardware struct {
	Name  string
	Rates func(local int) Rates // of a rank among local ranks of a host
	// Link returns the cost of a collective of a group of size ranks; across is true if it leaves the host, with
	// groups of the same kind that leave it at the same time.
	Link func(op string, size int, across bool, groups int) Link
	// Overlaps reports whether communication runs beside computation: not if the ranks of a host keep all its
	// cores busy.
	Overlaps func(local int) bool
	Local    int // ranks of a host
}

// SheetHardware returns the hardware of hosts with local GPUs each, connected by link in a host and by ports of network
// between hosts, at the shares of Reach. A ring over hosts crosses each of them once, so its ranks together have all
// ports of a host.
func SheetHardware(g GPU, dtype string, local int, link, network SheetLink, ports int) Hardware {
	products := g.BFloat16
	if dtype == "float32" {
		products = g.Float32
	}
	r := Rates{Reach.Products * products, Reach.Memory * g.Memory, Reach.Memory * g.Memory}
	return Hardware{
		Name:  fmt.Sprintf("%s, %s in a host of %d, %d x %s per host (data sheets, %.0f%% of products, %.0f%% of memory, %.0f%% of links assumed)", g.Name, link.Name, local, ports, network.Name, 100*Reach.Products, 100*Reach.Memory, 100*Reach.Link),
		Rates: func(int) Rates { return r },
		Link: func(_ string, size int, across bool, groups int) Link {
			l := link
			if across {
				l.Latency, l.Bandwidth = network.Latency, min(link.Bandwidth, float64(ports)*network.Bandwidth/float64(groups))
			}
			return Link{l.Latency * math.Ceil(math.Log2(float64(size))), Reach.Link * l.Bandwidth}
		},
		Overlaps: func(int) bool { return true },
		Local:    local,
	}
}

// Hardware returns this machine's rates for ranks of threads threads that compute in dtype and communicate over a
// transport. Between hosts it is tcp as measured here, or network.
func (m Machine) Hardware(dtype string, threads int, transport string, network *SheetLink) (Hardware, error) {
	c, ok := m.Compute[dtype]
	if !ok {
		return Hardware{}, fault.Try(fmt.Errorf("planner: the rates of this machine have no %s", dtype), "trireme bench machine")
	}
	inside, okInside := m.Transports[transport]
	between, okBetween := m.Transports["tcp"]
	if m.Cores > 1 && (!okInside || !okBetween) {
		return Hardware{}, fault.Try(fmt.Errorf("planner: the rates of this machine have no transport %s", transport), "trireme bench machine")
	}
	// x is 0 for one thread and 1 for all cores.
	at := func(x float64, one, all float64) float64 { return one + x*(all-one) }
	others := max(1, float64(m.Cores-1))
	return Hardware{
		Name: fmt.Sprintf("%s, %d cores, rates of %s", m.Processor, m.Cores, m.Date),
		Rates: func(local int) Rates {
			team := min(1, float64(threads-1)/others)
			busy := min(1, float64((local-1)*threads)/others)
			slow := at(busy, 1, c.Beside)
			if over := float64(local*threads) / float64(m.Cores); over > 1 {
				slow /= over
			}
			one, all := c.One, c.All
			return Rates{slow * at(team, one.Products, all.Products), slow * at(team, one.Operands, all.Operands), slow * at(team, one.State, all.State)}
		},
		Link: func(op string, size int, across bool, _ int) Link {
			t := inside
			if across {
				t = between
			}
			l := t.Ops[op]
			if across && network != nil {
				l = Link{network.Latency, Reach.Link * network.Bandwidth}
			}
			return Link{l.Latency * math.Ceil(math.Log2(float64(size))), l.Bandwidth}
		},
		Overlaps: func(local int) bool { return local*threads < m.Cores },
		Local:    max(1, m.Cores/threads),
	}, nil
}

// Prediction is the predicted step of a rank. The times in seconds sum to Step.
type Prediction struct {
	World    int     `json:"world"`
	Step     float64 `json:"step_seconds"`
	Tokens   float64 `json:"tokens_per_s"` // over all ranks
	Products float64 `json:"products_seconds"`
	Operands float64 `json:"operands_seconds"` // of all other operations
	Exposed  float64 `json:"exposed_communication_seconds"`
	Comm     float64 `json:"communication_seconds"` // all of it; Comm - Exposed is hidden
	// Efficiency is Tokens over World times that of one rank.
	Efficiency float64 `json:"efficiency"`
	Limit      string  `json:"limit"` // the longest of the parts
}

// Overlap is the share of communication that is hidden behind computation, 0 to 1; 1 without communication.
func (p Prediction) Overlap() float64 {
	if p.Comm == 0 {
		return 1
	}
	return 1 - p.Exposed/p.Comm
}

// Overhead is the exposed communication over the computation.
func (p Prediction) Overhead() float64 { return p.Exposed / (p.Products + p.Operands) }

// Predict predicts a step of the job.
//
//	compute = FLOPs of products and attention / Products + Work.Bytes / Operands + Work.State / State
//	collective = latency + sent bytes / bandwidth
//	step = compute + the communication that does not fit beside it
func (j Job) Predict(ctx context.Context, h Hardware) (Prediction, error) {
	p, err := j.Run(ctx, 0)
	if err != nil {
		return Prediction{}, err
	}
	local := min(j.Ranks, h.Local)
	r := h.Rates(local)
	out := Prediction{World: j.Ranks}
	out.Products, out.Operands = p.Work.seconds(r)
	compute := out.Products + out.Operands
	costs := map[string]float64{}
	t := timeline{overlaps: h.Overlaps(local)}
	links := map[string]Link{}
	simulated := 0.0
	for _, c := range p.issued {
		if c.size < 2 {
			continue
		}
		across, groups := j.Ranks > local && c.size > local, 1
		if c.group == "replicate" && j.Ranks > local { // a rank of each host
			across, groups = true, local
		}
		l := h.Link(c.op, c.size, across, groups)
		seconds := l.Latency + float64(c.bytes)/l.Bandwidth
		links[c.op+" over "+c.group] = l
		simulated += seconds
		products, rest := c.at.seconds(r)
		t.issue(c.op, products+rest, seconds)
	}
	for _, s := range p.Sent { // of all micro-batches
		if l, ok := links[s.String()]; ok {
			costs[s.String()] = float64(s.Calls)*l.Latency + float64(s.Bytes)/l.Bandwidth
			out.Comm += costs[s.String()]
		}
	}
	if simulated > 0 {
		out.Exposed = out.Comm * min(1, t.finish(p.simulated(r))/simulated)
	}
	out.Step = compute + out.Exposed
	tokens, err := j.tokens()
	if err != nil {
		return Prediction{}, err
	}
	out.Tokens = tokens / out.Step
	out.limit(costs)
	return out, nil
}

// limit names the longest part.
func (p *Prediction) limit(costs map[string]float64) {
	p.Limit = "matrix products"
	if p.Operands > p.Products {
		p.Limit = "memory-bound operations"
	}
	if p.Exposed <= max(p.Products, p.Operands) {
		return
	}
	most := ""
	for name, c := range costs {
		if most == "" || c > costs[most] || c == costs[most] && name < most {
			most = name
		}
	}
	p.Limit = most
}

// timeline is a compute stream and a communication stream of one rank.
type timeline struct {
	overlaps bool
	exposed  float64 // of the compute stream so between
	free     float64 // when the communication stream has run everything
	pending  []pending
}

// pending is a collective with its end.
type pending struct {
	op   string
	at   float64 // compute before it
	ends float64
}

// issue adds a collective after at seconds of computation. A prefetched all-gather is needed when the next one is
// issued; the first of several that are issued together is needed at once. Two reductions may run beside the bucket
// that is being written; others are needed at the end.
func (t *timeline) issue(op string, at, seconds float64) {
	if !t.overlaps {
		t.exposed += seconds
		return
	}
	keep := 0
	reductions := 0
	for _, p := range t.pending {
		if p.op != "all_gather" {
			reductions++
		}
	}
	for _, p := range t.pending {
		needed := p.op == "all_gather" && op == "all_gather"
		if p.op != "all_gather" && op != "all_gather" && reductions > 2 {
			needed, reductions = true, reductions-1
		}
		if needed {
			t.wait(p.ends, at)
			continue
		}
		t.pending[keep] = p
		keep++
	}
	t.pending = t.pending[:keep]
	t.free = max(t.free, at+t.exposed) + seconds
	t.pending = append(t.pending, pending{op, at, t.free})
}

// wait waits after at seconds of computation for an end.
func (t *timeline) wait(ends, at float64) { t.exposed += max(0, ends-(at+t.exposed)) }

// finish returns the exposed seconds of a step with compute seconds of computation.
func (t *timeline) finish(compute float64) float64 {
	if t.overlaps {
		t.wait(t.free, compute)
	}
	return t.exposed
}

// tokens returns the tokens of a step over all ranks, for rows of the usual length.
func (j Job) tokens() (float64, error) {
	b, err := j.Batch()
	return float64(b.Global) * j.row(), err
}

// PredictWorlds predicts the job on several numbers of ranks, the first of them 1. Rows per rank stay the same, or with
// global_batch_size the rows of a step.
func (j Job) PredictWorlds(ctx context.Context, h Hardware, worlds []int) ([]Prediction, error) {
	one, err := j.on(1, h).Predict(ctx, h)
	if err != nil {
		return nil, err
	}
	var out []Prediction
	for _, w := range worlds {
		p, err := j.on(w, h).Predict(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("world %d: %w", w, err)
		}
		p.Efficiency = p.Tokens / one.Tokens / float64(w)
		out = append(out, p)
	}
	return out, nil
}

// on returns the job on a number of ranks.
func (j Job) on(world int, h Hardware) Job {
	j.Ranks, j.Local = world, min(world, h.Local)
	if world == 1 {
		j = j.withStrategy("no_shard")
	}
	return j
}
