package planner

import (
	"context"
	"errors"
	"fmt"
	"math"

	"trireme/device"
	"trireme/train"
)

// Program is a compiled program of a step.
type Program struct {
	Name string // the part of the step, or "step" for all of it
	device.Program
}

// compiledMicroBatches is the number of micro-batches whose programs differ: the last has the end of
// the step.
const compiledMicroBatches = 2

// Compile compiles a step of one rank for a target, whose number of ranks is the job's. All ranks have
// the same programs. started is called before each compilation with the program's name and number of
// operations; nil ignores it.
func (j Job) Compile(ctx context.Context, t *device.Target, started func(name string, operations int)) (_ []Program, err error) {
	accumulation, err := j.Config.Training.MaxAccumulation(j.Ranks, int(math.Ceil(j.row())))
	if err != nil {
		return nil, err
	}
	n := min(accumulation, compiledMicroBatches)
	last := "step"
	c := t.Compiler(func(call, operations int) {
		if last = programName(call, n); started != nil {
			started(last, operations)
		}
	})
	defer func() { err = errors.Join(err, c.Close()) }()
	a, err := j.Config.Build(c, j.Model, j.Positions, train.Ranks{Ranks: c.World(&ranks{0, j.Ranks, &ledger{}}), Local: j.Local}, true)
	if err != nil {
		return nil, err
	}
	defer a.Engine.Close()
	if err := a.Engine.Refresh(ctx); err != nil {
		return nil, err
	}
	if err := a.Stepper.Step(ctx, j.micros(n), func(int) float64 { return 0 }); err != nil {
		return nil, fmt.Errorf("compiling the program of the %s: %w", last, err)
	}
	var out []Program
	for _, p := range c.Programs() {
		out = append(out, Program{programName(p.Call, n), p})
	}
	return out, nil
}

// programName is the name of program i of a step of n micro-batches: with more than one, the beginning is
// a program before them.
func programName(i, n int) string {
	switch {
	case n == 1:
		return "step"
	case i == 0:
		return "beginning"
	case i == n:
		return "last micro-batch"
	}
	return "other micro-batches"
}
