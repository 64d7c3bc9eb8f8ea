package cli

import (
	"context"
	"fmt"

	"trireme/device"
	"trireme/parallel"
	"trireme/planner"
	"trireme/tensor"
)

const planSchema = "trireme.plan/1"

// planReport is the JSON output of plan. Memory is in bytes.
type planReport struct {
	Schema     string `json:"schema"`
	Model      string `json:"model,omitempty"`
	Family     string `json:"family,omitempty"`
	Note       string `json:"note,omitempty"`
	Parameters int64  `json:"parameters"`
	WorldSize  int    `json:"world_size"`
	Local      int    `json:"ranks_per_node,omitempty"`
	*planDetail

	Predicted   *predictionReport  `json:"predicted,omitempty"`
	Accountings []accounted        `json:"accountings,omitempty"`
	Estimates   []planner.Estimate `json:"deepspeed_estimates,omitempty"`
}

type planDetail struct {
	Trained        int64               `json:"trained_parameters"`
	SequenceLength int                 `json:"sequence_length"`
	Batch          planner.Batch       `json:"batch"`
	Tokens         int                 `json:"micro_batch_tokens,omitempty"`
	ParamDType     string              `json:"param_dtype"`
	Recompute      bool                `json:"activation_checkpointing"`
	Strategy       string              `json:"strategy"`
	Mesh           meshReport          `json:"mesh"`
	PerRank        memoryReport        `json:"per_rank"`
	Communication  traffic             `json:"communication"`
	FLOPs          flops               `json:"flops"`
	GPUMemory      int64               `json:"gpu_memory,omitempty"`
	Fits           *bool               `json:"fits,omitempty"`
	Largest        *planner.Batch      `json:"largest_batch,omitempty"` // within gpu_memory
	Recommendation *recommendation     `json:"recommendation,omitempty"`
	Changes        []change            `json:"changes,omitempty"` // that make the plan fit
	Strategies     []plannedStrategy   `json:"strategies"`
	Slots          []parallel.SlotSize `json:"optimizer_state"`   // of a rank, by torch's names
	Offload        []string            `json:"offload,omitempty"` // notes

	plan planner.Plan
}

type plannedStrategy struct {
	Strategy      string         `json:"strategy"`
	Mesh          *meshReport    `json:"mesh,omitempty"`
	PerRank       *memoryReport  `json:"per_rank,omitempty"`
	Communication *traffic       `json:"communication,omitempty"`
	Fits          *bool          `json:"fits,omitempty"`
	Largest       *planner.Batch `json:"largest_batch,omitempty"`
	Error         string         `json:"error,omitempty"`
}

type meshReport struct {
	Replicate int `json:"replicate"`
	Shard     int `json:"shard"`
}

func (m meshReport) String() string { return fmt.Sprintf("%d x %d", m.Replicate, m.Shard) }

// memoryReport is a rank's memory by category: at the peak of their sum, between steps, and each
// category's own peak.
type memoryReport struct {
	bytesBy
	AtRest       bytesBy `json:"at_rest"`
	CategoryPeak bytesBy `json:"at_most"` // total is that of the peak
	// Host is the part in host memory with --gpu_memory; the rest is in device memory.
	Host *bytesBy `json:"host,omitempty"`
	// Compiled is the memory that --compile found.
	Compiled *compiledReport `json:"compiled,omitempty"`
}

type bytesBy struct {
	Parameters  int64 `json:"parameters"`
	Gradients   int64 `json:"gradients"`
	Master      int64 `json:"master"`
	Optimizer   int64 `json:"optimizer"`
	Gathered    int64 `json:"gathered"`
	Buckets     int64 `json:"buckets"`
	Activations int64 `json:"activations"`
	Logits      int64 `json:"logits"`
	Workspace   int64 `json:"workspace"`
	Snapshot    int64 `json:"snapshot"`
	Checkpoints int64 `json:"checkpoints"`
	Offloaded   int64 `json:"offloaded"` // in files; not in total
	Total       int64 `json:"total"`
}

// traffic is the bytes that a rank sends per step.
type traffic struct {
	Total int64       `json:"total"`
	By    []sentBytes `json:"collectives"`
}

type sentBytes struct {
	Collective string `json:"collective"`
	Group      string `json:"group"`
	Calls      int64  `json:"calls"`
	Bytes      int64  `json:"bytes"`
}

// flops are floating-point operations per step.
type flops struct {
	Step     float64 `json:"step"` // over all ranks, counted as for MFU
	Rank     float64 `json:"per_rank"`
	Executed float64 `json:"executed"` // per rank, with recomputation
}

type recommendation struct {
	Strategy  string         `json:"strategy"` // empty: none
	Reason    string         `json:"reason"`
	Recompute bool           `json:"recompute_every_layer"`
	Batch     *planner.Batch `json:"batch,omitempty"`
	Largest   *planner.Batch `json:"largest_batch,omitempty"`
	PerRank   *memoryReport  `json:"per_rank,omitempty"`
}

type change struct {
	What   string   `json:"what"`
	Effect string   `json:"effect"`
	Set    []string `json:"set"`
	Total  int64    `json:"total"`
}

// accounted is a published accounting for one strategy.
type accounted struct {
	Accounting string `json:"accounting"`
	Strategy   string `json:"strategy"`
	Bytes      int64  `json:"bytes"` // of a rank
	source     string
}

// newPlanReport plans a job and compares strategies.
func newPlanReport(ctx context.Context, j planner.Job, request planRequest) (*planReport, error) {
	limit := int64(request.memory)
	s, mesh, err := j.Config.Parallel.Resolve(j.Ranks, j.Local)
	if err != nil {
		return nil, err
	}
	p, err := j.Run(ctx, 0)
	if err != nil {
		return nil, err
	}
	batch, err := j.Batch()
	if err != nil {
		return nil, err
	}
	d := &planDetail{
		Trained: p.Trainable, SequenceLength: j.Positions, Batch: batch, Tokens: j.Config.Training.MicroBatchTokens, ParamDType: j.Config.Precision.ParamDType, Recompute: j.Config.Recompute.Enabled,
		PerRank: newMemoryReport(p), Communication: newTraffic(p), Slots: p.Slots, GPUMemory: limit,
		FLOPs: flops{p.FLOPs * float64(j.Ranks), p.FLOPs, p.Executed}, plan: p,
	}
	if j.SeparateMemory {
		d.Offload = hostNotes(p, j)
	} else {
		d.Offload = j.Config.Offload.Notes()
	}
	d.Strategy, d.Mesh = s.Name, meshReport{mesh[parallel.Replicate], mesh[parallel.Shard]}
	strategies, compared := request.strategies, len(request.strategies) > 1
	if !compared {
		strategies = parallel.StrategyNames()
	}
	options, err := j.Compare(ctx, strategies, limit)
	if err != nil {
		return nil, err
	}
	fits := false
	for _, o := range options {
		d.Strategies = append(d.Strategies, newPlanned(o, limit))
		if o.Strategy == s.Name {
			d.Largest = largest(o)
		}
		fits = fits || o.Fits && (compared || o.Strategy == s.Name)
	}
	if limit > 0 {
		d.Fits = &fits
	}
	if limit > 0 {
		if err := d.advise(ctx, j, options, limit); err != nil {
			return nil, err
		}
	}
	r := &planReport{Schema: planSchema, Parameters: p.Parameters, WorldSize: j.Ranks, planDetail: d}
	if j.Local < j.Ranks {
		r.Local = j.Local
	}
	return r, nil
}

// advise adds the recommendation for a memory limit, and changes that make the job fit.
func (d *planDetail) advise(ctx context.Context, j planner.Job, options []planner.Option, limit int64) error {
	a, err := j.Advise(ctx, options, limit)
	if err != nil {
		return err
	}
	d.Recommendation = &recommendation{Strategy: a.Strategy, Reason: a.Why, Recompute: a.Recompute}
	if a.Strategy != "" {
		m := newMemoryReport(a.Plan)
		d.Recommendation.Batch, d.Recommendation.Largest, d.Recommendation.PerRank = &a.Batch, &a.Largest, &m
	}
	if d.plan.Memory.PeakTotal <= limit {
		return nil
	}
	changes, err := j.Changes(ctx, limit)
	for _, c := range changes {
		d.Changes = append(d.Changes, change{c.What, c.Effect(d.plan), c.Keys, c.Plan.Memory.PeakTotal})
	}
	return err
}

// hostNotes describes the memory in use on the host.
func hostNotes(p planner.Plan, j planner.Job) []string {
	n := p.HostBytes()
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("host memory: %v per rank, %v per machine of %d", device.Bytes(n), device.Bytes(n*int64(j.Local)), j.Local)
	if j.Config.Offload.Optimizer.Device == parallel.OffloadCPU {
		text += "; the optimizer runs on the host, with gradients and float32 masters"
	}
	return []string{text}
}

func largest(o planner.Option) *planner.Batch {
	if o.Largest.Micro == 0 {
		return nil
	}
	return &o.Largest
}

func newPlanned(o planner.Option, limit int64) plannedStrategy {
	p := plannedStrategy{Strategy: o.Strategy}
	if o.Err != nil {
		p.Error = o.Err.Error()
		return p
	}
	m, t := newMemoryReport(o.Plan), newTraffic(o.Plan)
	p.Mesh, p.PerRank, p.Communication = &meshReport{o.Replicate, o.Shard}, &m, &t
	if limit > 0 {
		p.Fits, p.Largest = &o.Fits, largest(o)
	}
	return p
}

func newMemoryReport(p planner.Plan) memoryReport {
	m := p.Memory
	r := memoryReport{bytesBy: newBytesBy(m.AtPeak, m.PeakTotal), AtRest: newBytesBy(m.Live, m.LiveTotal), CategoryPeak: newBytesBy(m.Peak, m.PeakTotal)}
	if n := p.HostBytes(); n > 0 {
		host := newBytesBy(p.Host, n)
		r.Host = &host
	}
	return r
}

func newBytesBy(by [tensor.NumCategories]int64, total int64) bytesBy {
	return bytesBy{
		Parameters: by[tensor.Params], Gradients: by[tensor.Grads], Master: by[tensor.Master], Optimizer: by[tensor.Optimizer],
		Gathered: by[tensor.Gathered], Buckets: by[tensor.Buckets], Activations: by[tensor.Activations], Logits: by[tensor.Logits],
		Workspace: by[tensor.Workspace], Snapshot: by[tensor.Snapshot], Checkpoints: by[tensor.Checkpoints], Offloaded: by[tensor.Offloaded], Total: total,
	}
}

func newTraffic(p planner.Plan) traffic {
	t := traffic{Total: p.SentBytes(), By: []sentBytes{}}
	for _, s := range p.Sent {
		t.By = append(t.By, sentBytes{s.Op, s.Group, s.Calls, s.Bytes})
	}
	return t
}

func (r *planReport) addAccountings(names []string, parameters, largest float64, ranks, perNode int) error {
	for _, name := range names {
		if name == planner.DeepSpeed {
			if err := r.addEstimates(parameters, largest, ranks, perNode); err != nil {
				return err
			}
			continue
		}
		a, err := planner.ParseAccounting(name)
		if err != nil {
			return err
		}
		for _, strategy := range []string{"no_shard", "zero_1", "shard_grad_op", "full_shard"} {
			s, err := parallel.ParseStrategy(strategy)
			if err != nil {
				return err
			}
			r.Accountings = append(r.Accountings, accounted{name, strategy, int64(a.Count(s, parameters, ranks)), a.Source})
		}
	}
	return nil
}

func (r *planReport) addEstimates(parameters, largest float64, ranks, perNode int) error {
	if perNode == 0 {
		perNode = min(ranks, 8)
	}
	if ranks%perNode != 0 {
		return usage(fmt.Sprintf("--world_size is %d, which is not a multiple of %d ranks per node", ranks, perNode), "--ranks_per_node N")
	}
	r.Estimates = planner.Estimates(parameters, largest, ranks/perNode, perNode)
	return nil
}
