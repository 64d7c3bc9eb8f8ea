package planner

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"trireme/parallel"
)

// Option is a job under one strategy.
type Option struct {
	Strategy         string
	Replicate, Shard int // the mesh
	Plan             Plan
	Batch            Batch // the job's
	Largest          Batch // that fits the limit; zero where none does, or there is no limit
	Fits             bool
	Err              error // the strategy cannot be in such a world
}

// singleReplica reports whether the strategy is a hybrid one with one replica: the one that it is a hybrid
// of does the same.
func (o Option) singleReplica() bool {
	s, err := parallel.ParseStrategy(o.Strategy)
	return err == nil && s.Replicas && o.Replicate == 1
}

// duplicatesHostState reports whether the ranks of a machine would keep the same state on their host, each a copy.
func (o Option) duplicatesHostState() bool {
	s, err := parallel.ParseStrategy(o.Strategy)
	return err == nil && !s.Optimizer && o.Shard > 1 && o.Plan.HostBytes() > 0
}

// withStrategy is the job with another strategy: a mesh that was meant for its own stays with it.
func (j Job) withStrategy(strategy string) Job {
	was, err := parallel.ParseStrategy(j.Config.Parallel.Strategy)
	now, errNow := parallel.ParseStrategy(strategy)
	if err == nil && errNow == nil && now.Replicas != was.Replicas {
		j.Config.Parallel.Mesh = parallel.MeshConfig{}
	}
	if err == nil && errNow == nil && now.Params && !was.Params && j.Config.Parallel.ReshardAfterForward > parallel.ReshardNever {
		j.Config.Parallel.ReshardAfterForward = parallel.ReshardAlways // groups were not meant for it
	}
	j.Config.Parallel.Strategy = strategy
	return j
}

// Compare plans the job under each of some strategies. A limit (bytes of a rank; 0 is none) says
// which fit, and with what batch at most.
func (j Job) Compare(ctx context.Context, strategies []string, limit int64) ([]Option, error) {
	out := make([]Option, len(strategies))
	errs := make([]error, len(strategies))
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, s := range strategies {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i], errs[i] = j.option(ctx, s, limit)
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

func (j Job) option(ctx context.Context, strategy string, limit int64) (o Option, err error) {
	j = j.withStrategy(strategy)
	var s parallel.Strategy
	var mesh parallel.MeshShape
	if s, mesh, o.Err = j.Config.Parallel.Resolve(j.Ranks, j.Local); o.Err != nil {
		o.Strategy = strategy
		return o, nil
	}
	o.Strategy, o.Replicate, o.Shard = s.Name, mesh[parallel.Replicate], mesh[parallel.Shard]
	if o.Err = j.Config.Offload.CheckStrategy(s); o.Err != nil {
		return o, nil
	}
	if o.Batch, err = j.Batch(); err != nil {
		return o, err
	}
	if o.Plan, err = j.Run(ctx, 0); err != nil || limit == 0 {
		return o, err
	}
	o.Fits = o.Plan.Memory.PeakTotal <= limit
	o.Largest, err = j.Largest(ctx, limit)
	return o, err
}
