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
	Batch            Batch // of the job
	Largest          Batch // that fits the limit; zero if none does or there is no limit
	Fits             bool
	Err              error // the strategy does not suit the world
}

// singleReplica reports whether the strategy is hybrid with one replica, which equals its base strategy.
func (o Option) singleReplica() bool {
	s, err := parallel.ParseStrategy(o.Strategy)
	return err == nil && s.Replicas && o.Replicate == 1
}

// duplicatesHostState reports whether ranks of a machine keep the same state on their host.
func (o Option) duplicatesHostState() bool {
	s, err := parallel.ParseStrategy(o.Strategy)
	return err == nil && !s.Optimizer && o.Shard > 1 && o.Plan.HostBytes() > 0
}

// withStrategy returns the job with another strategy. A mesh or reshard group that only suits the old
// strategy is dropped.
func (j Job) withStrategy(strategy string) Job {
	was, err := parallel.ParseStrategy(j.Config.Parallel.Strategy)
	now, errNow := parallel.ParseStrategy(strategy)
	if err == nil && errNow == nil && now.Replicas != was.Replicas {
		j.Config.Parallel.Mesh = parallel.MeshConfig{}
	}
	if err == nil && errNow == nil && now.Params && !was.Params && j.Config.Parallel.ReshardAfterForward > parallel.ReshardNever {
		j.Config.Parallel.ReshardAfterForward = parallel.ReshardAlways // reshard groups were for the old strategy
	}
	j.Config.Parallel.Strategy = strategy
	return j
}

// Compare plans the job under each strategy. If limit (bytes of a rank; 0 is none) is set, it also
// reports which fit and the largest batch.
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
