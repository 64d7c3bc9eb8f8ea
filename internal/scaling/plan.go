package scaling

import (
	"fmt"
	"slices"
)

// Mode is how work grows with ranks.
type Mode string

const (
	Strong Mode = "strong" // the same rows per step on any number of ranks
	Weak   Mode = "weak"   // the same rows per rank
)

// Trial is a run to measure. Equal trials are run once.
type Trial struct {
	DType        string // precision.param_dtype
	Strategy     string
	World        int
	Accumulation int // micro-batches per rank and step
	Copies       int // independent jobs at the same time
}

func (t Trial) String() string {
	text := fmt.Sprintf("%s %s, world %d, %s per rank", t.DType, t.Strategy, t.World, count(t.Accumulation, "micro-batch", "es"))
	if t.Copies > 1 {
		text += fmt.Sprintf(", %d jobs at the same time", t.Copies)
	}
	return text
}

// count returns n with the noun, which ends in plural unless n is 1.
func count(n int, noun, plural string) string {
	if n != 1 {
		noun += plural
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Cell is a row of the report.
type Cell struct {
	Mode     Mode
	DType    string
	Strategy string
	World    int

	Own    Trial // of the cell
	Single Trial // one rank with the work of the mode's baseline
	Share  Trial // one rank with the work of a rank of the cell
	Copies Trial // Share in World processes at the same time
}

// baseline is the strategy of trials of one rank, where all strategies do the same.
const baseline = "no_shard"

// Experiment is the set of cells to measure.
type Experiment struct {
	Modes      []Mode
	DTypes     []string
	Strategies []string
	Worlds     []int // ascending, from 1
	// MicroBatches is the number of micro-batches of a step over all ranks in strong scaling, a multiple of
	// every world; PerRank is that of a rank in weak scaling.
	MicroBatches, PerRank int
}

// Cells returns the rows in the order of the report.
func (e Experiment) Cells() []Cell {
	var out []Cell
	for _, m := range e.Modes {
		for _, dt := range e.DTypes {
			for _, s := range e.Strategies {
				for _, w := range e.Worlds {
					out = append(out, e.cell(m, dt, s, w))
				}
			}
		}
	}
	return out
}

func (e Experiment) cell(m Mode, dtype, strategy string, world int) Cell {
	one, own := e.PerRank, e.PerRank
	if m == Strong {
		one, own = e.MicroBatches, e.MicroBatches/world
	}
	c := Cell{
		Mode: m, DType: dtype, Strategy: strategy, World: world,
		Own:    Trial{dtype, strategy, world, own, 1},
		Single: Trial{dtype, baseline, 1, one, 1},
		Share:  Trial{dtype, baseline, 1, own, 1},
		Copies: Trial{dtype, baseline, 1, own, world},
	}
	if world == 1 {
		c.Own = c.Single
	}
	return c
}

// Trials returns the runs of a round. Round n starts with trial n, so that no trial always follows the same one.
func Trials(cells []Cell, round int) []Trial {
	var out []Trial
	for _, c := range cells {
		for _, t := range []Trial{c.Single, c.Share, c.Copies, c.Own} {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	n := round % len(out)
	return append(out[n:len(out):len(out)], out[:n]...)
}
