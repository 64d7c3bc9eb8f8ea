package scaling

import (
	"fmt"
	"slices"
)

// Row is a cell's result over all rounds.
type Row struct {
	Mode         Mode    `json:"mode"`
	DType        string  `json:"param_dtype"`
	Strategy     string  `json:"strategy"`
	World        int     `json:"world"`
	MicroBatches int     `json:"micro_batches_per_rank"`
	Tokens       float64 `json:"tokens_per_s"` // over all ranks, the median round
	StepSeconds  float64 `json:"step_seconds"` // the median round
	// Efficiency is tokens_per_s over that of one rank times the ranks, the median round; EfficiencyMin and Max are
	// the range. Efficiencies are of every round.
	Efficiency    float64   `json:"efficiency"`
	EfficiencyMin float64   `json:"efficiency_min"`
	EfficiencyMax float64   `json:"efficiency_max"`
	Efficiencies  []float64 `json:"efficiencies"`
	// Predicted is tokens_per_s by the rates of "trireme bench machine"; 0: they were not measured.
	Predicted   float64  `json:"predicted_tokens_per_s,omitempty"`
	Lost        Lost     `json:"lost"`      // percent; sums to 100 * (1 - efficiency)
	SlowRank    *int     `json:"slow_rank"` // the slowest rank, if ranks wait for it more than 1% of a step
	Memory      int64    `json:"memory"`    // peak tensor bytes of the rank with most
	MemoryShare float64  `json:"memory_share"`
	Resident    int64    `json:"resident"` // peak, of the process with most
	Loss        *float64 `json:"loss"`     // of the last step; null: not finite
	LossesEqual bool     `json:"losses_equal"`
}

// Rows returns the result of each cell from the rounds, each with a measurement of every trial.
func Rows(cells []Cell, rounds []map[Trial]Measurement) []Row {
	rows := make([]Row, len(cells))
	losses := map[string][][]float64{}
	for i, c := range cells {
		rows[i] = c.row(rounds)
		for _, r := range rounds {
			losses[c.sameRun()] = append(losses[c.sameRun()], r[c.Own].Losses)
		}
	}
	for i, c := range cells {
		rows[i].LossesEqual = equalBits(losses[c.sameRun()])
		if one := rounds[0][c.Single].Memory; one > 0 {
			rows[i].MemoryShare = float64(rows[i].Memory) / float64(one)
		}
	}
	return rows
}

// sameRun names the runs whose losses must have the same bits: those with the same rows in a step.
func (c Cell) sameRun() string {
	rows := c.Own.Accumulation * c.World
	return fmt.Sprint(c.DType, rows)
}

func (c Cell) row(rounds []map[Trial]Measurement) Row {
	r := Row{Mode: c.Mode, DType: c.DType, Strategy: c.Strategy, World: c.World, MicroBatches: c.Own.Accumulation}
	var tokens, seconds []float64
	var parts [4][]float64
	slow := map[int]int{}
	for _, m := range rounds {
		own := m[c.Own]
		e, l := attribute(c.World, own, m[c.Single], m[c.Share], m[c.Copies])
		tokens, seconds, r.Efficiencies = append(tokens, own.TokensPerSecond), append(seconds, own.StepSeconds), append(r.Efficiencies, e)
		for i, v := range []float64{l.Communication, l.Waiting, l.LessWork, l.MemoryBandwidth} {
			parts[i] = append(parts[i], v)
		}
		slow[own.SlowRank]++
		r.Memory, r.Resident = max(r.Memory, own.Memory), max(r.Resident, own.Resident)
		if n := len(own.Losses); n > 0 && own.Losses[n-1]-own.Losses[n-1] == 0 {
			r.Loss = &own.Losses[n-1]
		}
	}
	r.Tokens, r.StepSeconds, r.Efficiency = median(tokens), median(seconds), median(r.Efficiencies)
	r.EfficiencyMin, r.EfficiencyMax = slices.Min(r.Efficiencies), slices.Max(r.Efficiencies)
	if c.World > 1 {
		r.Lost = Lost{Communication: median(parts[0]), Waiting: median(parts[1]), LessWork: median(parts[2]), MemoryBandwidth: median(parts[3])}
		r.Lost.Rest = 100*(1-r.Efficiency) - r.Lost.Sum()
	}
	if r.Lost.Waiting > 1 {
		worst := 0
		for rank, n := range slow {
			if n > slow[worst] || n == slow[worst] && rank < worst {
				worst = rank
			}
		}
		r.SlowRank = &worst
	}
	return r
}
