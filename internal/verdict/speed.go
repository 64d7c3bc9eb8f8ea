package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trireme/fault"
	"trireme/monitor"
)

// Speed says where the time of a run goes.
type Speed struct {
	// Limit is data, disk, memory (checkpoints there), rank, link, compute, or empty if the records do not say.
	Limit  string  `json:"limit"`
	Text   string  `json:"text"`             // with numbers
	Rank   int     `json:"rank"`             // the slow rank of limit rank, and of data and disk if one causes the wait; -1: none
	Op     string  `json:"op,omitempty"`     // of limit link: all_gather/shard
	Shares []Share `json:"shares,omitempty"` // of the time, the largest first
}

// Share is a part of the time between steps.
type Share struct {
	Name     string  `json:"name"`
	Fraction float64 `json:"fraction"` // 0 to 1
}

const (
	// limitShare is the share of the time from which a part other than computation is the limit.
	limitShare = 0.10
	// speedSteps is the number of last steps whose time is divided.
	speedSteps = 5000
)

// last returns the sum of a metric over the last steps; 0 if no record has it.
func (c *curve) last(name string, n int) float64 {
	all, sum := c.Metrics[name], 0.0
	before := len(c.Steps) - len(all)
	for _, row := range c.rows[max(0, len(c.rows)-n):] {
		if row >= before && all[row-before]-all[row-before] == 0 {
			sum += all[row-before]
		}
	}
	return sum
}

// speed divides the time of the later steps.
func speed(c *curve) (Speed, []Finding) {
	s := Speed{Rank: -1}
	// Early steps allocate and compile.
	n := min(speedSteps, max(1, len(c.steps)-max(1, len(c.steps)/4)))
	step := c.last("step_seconds", n)
	if len(c.steps) < 5 || step <= 0 {
		s.Text = "too few steps to say what limits the speed"
		return s, nil
	}
	save, eval := c.last("save_seconds", n), c.last("eval_seconds_between", n)
	total := step + save + eval
	parts := map[string]float64{"checkpoints": save, "evaluation": eval}
	if c.of("split.forward") != nil || c.of("split.program") != nil {
		for name := range c.Metrics {
			if part, ok := strings.CutPrefix(name, "split."); ok {
				parts[part] = c.last(name, n)
			}
		}
	} else {
		data, comm := 0.0, 0.0
		fractions := [2][]float64{c.of("data_fraction"), c.of("comm_fraction")}
		for i, t := range c.of("step_seconds") {
			if i < len(c.steps)-n || t-t != 0 {
				continue
			}
			for k, v := range fractions {
				if v == nil || v[i]-v[i] != 0 {
					continue
				}
				if k == 0 {
					data += v[i] * t
				} else {
					comm += v[i] * t
				}
			}
		}
		parts["data"], parts["comm"] = data, comm
		parts["compute"] = max(0, step-data-comm)
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if parts[name] > 0 {
			s.Shares = append(s.Shares, Share{name, parts[name] / total})
		}
	}
	slices.SortStableFunc(s.Shares, func(a, b Share) int { return cmp.Compare(b.Fraction, a.Fraction) })
	return s, s.judge(c, n, parts, total)
}

// judge finds the largest part that is not computation.
func (s *Speed) judge(c *curve, n int, parts map[string]float64, total float64) []Finding {
	rank, excess := slowest(c, n)
	waiting := parts["wait"] / total
	if _, ok := parts["wait"]; !ok && rank >= 0 { // old records have waits within comm
		waiting = min(parts["comm"]/total, excess)
		parts["comm"] -= waiting * total
	}
	limits := []Share{{"data", parts["data"] / total}, {"disk", (parts["checkpoints"] + parts["offload"]) / total}, {"rank", waiting}, {"link", parts["comm"] / total}}
	slices.SortStableFunc(limits, func(a, b Share) int { return cmp.Compare(b.Fraction, a.Fraction) })
	top := limits[0]
	if top.Fraction < limitShare {
		s.Limit = "compute"
		s.Text = fmt.Sprintf("computation is %s of the time", percent(1-(parts["data"]+parts["checkpoints"]+parts["evaluation"]+parts["offload"]+parts["comm"]+parts["wait"])/total))
		if v := c.of("mfu"); v != nil {
			s.Text += fmt.Sprintf(", MFU %.1f%%", 100*mean(v[len(v)-n:]))
		}
		return nil
	}
	s.Limit = top.Name
	f := Finding{Kind: "speed", Severity: Info}
	if top.Fraction > 0.25 {
		f.Severity = Warning
	}
	switch top.Name {
	case "data":
		s.Text = fmt.Sprintf("data: rank 0 waits for the loader %s of the time", percent(top.Fraction))
		f.Advice = "a faster disk for the data, or data that is tokenized before the run"
	case "disk":
		s.Text = fmt.Sprintf("disk: checkpoints take %s and offloaded state %s of the time", percent(parts["checkpoints"]/total), percent(parts["offload"]/total))
		if k := c.number("checkpoint.save_every_n_steps"); parts["checkpoints"] >= parts["offload"] && k > 0 {
			f.Try = []fault.Setting{fault.Set("checkpoint.save_every_n_steps", int64(4*k))}
		}
		f.Advice = "a faster disk"
		if memory := c.last("memory_save_seconds", n); memory > parts["checkpoints"]/2 && parts["checkpoints"] >= parts["offload"] {
			s.Limit, s.Text = "memory", fmt.Sprintf("memory: checkpoints in memory take %s of the time", percent(memory/total))
			f.Advice = fmt.Sprintf("a larger save_every_n_steps of the first of checkpoint.tiers (now %s)", c.Config["checkpoint.tiers[0].save_every_n_steps"])
		}
	case "rank":
		s.slowRank(c, n, rank, top.Fraction)
		if f.Advice = "look at other programs, the temperature and the memory of that rank's host"; s.Rank < 0 {
			f.Advice = "look for other programs on the hosts; more tokens per step even short delays out"
		}
	case "link":
		s.slowLink(c, n, top.Fraction)
		f.Advice = "a faster link between the hosts"
		if k := c.number("training.gradient_accumulation_steps"); k > 0 {
			f.Try = []fault.Setting{fault.Set("training.gradient_accumulation_steps", int64(2*k))}
		}
	}
	f.Text = "the speed is limited by " + s.Text
	return []Finding{f}
}

// slowest returns the rank with the most time of its own over the last n steps, and that time over the median
// rank's, less 1; -1 if the records do not name one.
func slowest(c *curve, n int) (rank int, excess float64) {
	times := c.perRank("ranks.own.", n)
	if len(times) > 1 {
		rank = 0
		for r, t := range times {
			if t > times[rank] {
				rank = r
			}
		}
		others := slices.Clone(times)
		slices.Sort(others)
		middle := others[(len(others)-1)/2]
		if middle > 0 {
			return rank, times[rank]/middle - 1
		}
		return -1, 0
	}
	skew, slow := c.of("skew"), c.of("slow_rank")
	if skew == nil || slow == nil {
		return -1, 0
	}
	count := map[int]int{}
	for _, r := range slow[max(0, len(slow)-n):] {
		if r == r {
			count[int(r)]++
		}
	}
	rank = -1
	for _, r := range slices.Sorted(maps.Keys(count)) {
		if rank < 0 || count[r] > count[rank] {
			rank = r
		}
	}
	if over := mean(skew[max(0, len(skew)-n):]) - 1; rank >= 0 && over > 0.1 && 2*count[rank] > min(n, len(slow)) {
		return rank, over
	}
	return -1, 0
}

// perRank sums a metric of each rank over the last n steps.
func (c *curve) perRank(prefix string, n int) (out []float64) {
	for r := 0; c.Metrics[prefix+strconv.Itoa(r)] != nil; r++ {
		out = append(out, c.last(prefix+strconv.Itoa(r), n))
	}
	return out
}

func (s *Speed) slowRank(c *curve, n, rank int, share float64) {
	s.Rank = rank
	if rank < 0 {
		s.Text = fmt.Sprintf("slow ranks: rank 0 waits %s of the time for others; the records do not name which", percent(share))
		return
	}
	s.Text = fmt.Sprintf("rank %d: the others wait %s of the time for it", rank, percent(share))
	own := c.perRank("ranks.own.", n)
	if rank >= len(own) {
		return
	}
	rest := own[rank]
	others := slices.Delete(slices.Clone(own), rank, rank+1)
	over := rest - median(others)
	if over < share/2*median(others) { // one slow rank would be slower by its share or more
		s.Rank = -1
		s.Text = fmt.Sprintf("short delays: the ranks wait %s of the time for one another, and none is slower over all steps", percent(share))
		return
	}
	s.Text += fmt.Sprintf(" (%.3g s of its own per step, the median of the others %.3g s)", rest/float64(n), median(others)/float64(n))
	for _, cause := range []struct{ prefix, limit, text string }{{"ranks.data.", "data", "its data reader"}, {"ranks.save.", "disk", "its disk"}} {
		v := c.perRank(cause.prefix, n)
		if rank >= len(v) || len(v) < 2 {
			continue
		}
		more := v[rank] - median(slices.Delete(slices.Clone(v), rank, rank+1))
		if more > over/2 && over > 0 {
			s.Limit = cause.limit
			s.Text = cause.text + " of " + s.Text
			if cause.limit == "data" {
				s.Text = fmt.Sprintf("data: the loader of %s", strings.TrimPrefix(s.Text, cause.text+" of "))
			} else {
				s.Text = fmt.Sprintf("disk of %s", strings.TrimPrefix(s.Text, cause.text+" of "))
			}
			return
		}
	}
}

func (s *Speed) slowLink(c *curve, n int, share float64) {
	worst, most := "", 0.0
	for _, name := range slices.Sorted(maps.Keys(c.Metrics)) {
		op, of := strings.CutPrefix(name, "comm_ops.")
		op, exposed := strings.CutSuffix(op, ".exposed")
		if !of || !exposed {
			continue
		}
		if v := c.last(name, n); v > most {
			worst, most = op, v
		}
	}
	s.Text = fmt.Sprintf("communication: rank 0 waits for data of collectives %s of the time", percent(share))
	if worst == "" {
		return
	}
	s.Op = worst
	op, axis, _ := strings.Cut(worst, "/")
	s.Text += fmt.Sprintf(", most for %s on axis %s", op, axis)
	if seconds := c.last("comm_ops."+worst+".seconds", n); seconds > 0 {
		if rate := c.last("comm_ops."+worst+".bytes", n) / seconds; rate > 0 && !math.IsInf(rate, 0) {
			s.Text += fmt.Sprintf(" (%s/s)", monitor.Bytes(int64(rate)))
		}
	}
}
