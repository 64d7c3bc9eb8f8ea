package scaling

// Lost is the lost efficiency by cause, in percent of the ideal throughput. The causes sum to
// 100 * (1 - efficiency). A negative share is a gain.
type Lost struct {
	Communication   float64 `json:"exposed_communication"` // waits of the slowest rank for data of collectives
	Waiting         float64 `json:"waiting"`               // for the slowest rank
	LessWork        float64 `json:"less_work"`             // fewer micro-batches per rank and step
	MemoryBandwidth float64 `json:"memory_bandwidth"`      // memory, caches and clock that ranks share
	Rest            float64 `json:"rest"`
}

// Sum returns the lost efficiency in percent.
func (l Lost) Sum() float64 {
	return l.Communication + l.Waiting + l.LessWork + l.MemoryBandwidth + l.Rest
}

// attribute returns a cell's efficiency and where the rest went. Times are rank-seconds per token: of the cell
// (own), of one rank with the whole job (single), with a rank's share of it (share), and with that share in one of
// N processes at the same time, for a cell of N ranks (copies).
//
//	efficiency      = single / own
//	less work       = (share - single) / own
//	memory          = (copies - share) / own
//	communication   = fraction of own in which the slowest rank waits for data
//	waiting         = fraction of own in which the median rank waits for the slowest
//	rest            = the remainder of 1 - efficiency
func attribute(world int, own, single, share, copies Measurement) (efficiency float64, l Lost) {
	if own.TokensPerSecond <= 0 || single.TokensPerSecond <= 0 || share.TokensPerSecond <= 0 || copies.TokensPerSecond <= 0 {
		return 0, Lost{Rest: 100}
	}
	t := float64(world) / own.TokensPerSecond
	one, part, beside := 1/single.TokensPerSecond, 1/share.TokensPerSecond, 1/copies.TokensPerSecond
	efficiency = one / t
	l = Lost{
		Communication: 100 * own.Exposed, Waiting: 100 * own.Waiting,
		LessWork: 100 * (part - one) / t, MemoryBandwidth: 100 * (beside - part) / t,
	}
	l.Rest = 100*(1-efficiency) - l.Sum()
	return efficiency, l
}
