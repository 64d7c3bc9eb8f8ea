package monitor

import (
	"fmt"

	"trireme/trace"
)

// Scalar is a number of a record with the tag that other programs show it under. Tags follow Hugging
// Face's Trainer (train/loss, train/learning_rate, train/grad_norm, train/epoch, eval/loss), with time/,
// comm/, memory/ (bytes), ranks/, host/ and device/ besides. Every tracker has the same tags.
type Scalar struct {
	Tag   string
	Value float64
}

type scalars []Scalar

func (s *scalars) add(tag string, v float64) { *s = append(*s, Scalar{tag, v}) }

func (s *scalars) all(prefix string, m map[string]float64) {
	for _, k := range sortedKeys(m) {
		s.add(prefix+EscapeControl(k), m[k])
	}
}

// positive adds a number that is 0 if it is unknown, or if there is nothing to count.
func (s *scalars) positive(tag string, v float64) {
	if v > 0 {
		s.add(tag, v)
	}
}

// ranks adds the times of every rank.
func (s *scalars) ranks(what string, times []float64) {
	for rank, v := range times {
		s.add(fmt.Sprintf("ranks/%s/%d", what, rank), v)
	}
}

// SplitParts lists the categories of a split, in the order of a step.
func SplitParts(s trace.Split) []Scalar {
	parts := []Scalar{
		{"data", s.Data}, {"forward", s.Forward}, {"backward", s.Backward}, {"recompute", s.Recompute}, {"optimizer", s.Optimizer},
		{"publish", s.Publish}, {"offload", s.Offload}, {"comm", s.Comm}, {"wait", s.Wait}, {"program", s.Program}, {"other", s.Other},
	}
	if s.Program == 0 { // nothing is compiled
		parts = append(parts[:9], parts[10:]...)
	}
	return parts
}

// values lists the numbers that h has, by the names of a record.
func (h *Host) values() []Scalar {
	var s scalars
	for _, v := range []struct {
		name string
		v    *float64
	}{
		{"cpu", h.CPU}, {"load", h.Load}, {"memory_available", h.MemoryAvailable}, {"disk_free", h.DiskFree}, {"disk_read_per_second", h.DiskRead},
		{"disk_write_per_second", h.DiskWrite}, {"net_receive_per_second", h.NetReceive}, {"net_send_per_second", h.NetSend},
	} {
		if v.v != nil {
			s.add(v.name, *v.v)
		}
	}
	return s
}

// Scalars lists the numbers of a step.
func (r Record) Scalars() []Scalar {
	var s scalars
	s.add("train/loss", r.Loss)
	s.add("train/learning_rate", r.LR)
	s.add("train/grad_norm", r.GradNorm)
	if r.LossScale > 0 {
		s.add("train/loss_scale", r.LossScale)
	}
	s.all("train/", r.Means)
	if r.Epoch > 0 {
		s.add("train/epoch", r.Epoch)
	}
	if r.EpochLoss != nil {
		s.add("train/epoch_loss", *r.EpochLoss)
	}
	s.add("time/step_seconds", r.StepSeconds)
	s.add("time/samples_per_second", r.SamplesPerSecond())
	s.add("time/tokens_per_second", r.TokensPerSecond())
	s.add("time/label_tokens_per_second", r.LabelTokensPerSecond())
	if r.PeakFLOPS > 0 {
		s.add("time/mfu", r.MFU)
	}
	s.positive("time/flops_per_second", r.FLOPSPerSecond)
	s.add("time/data_fraction", r.DataFraction)
	if r.StepSecondsMean > 0 {
		s.add("time/step_seconds_mean", r.StepSecondsMean)
		s.add("time/step_seconds_std", r.StepSecondsStd)
	}
	s.positive("time/save_seconds", r.SaveSeconds)
	s.positive("time/memory_save_seconds", r.MemorySaveSeconds)
	s.positive("time/eval_seconds", r.EvalSeconds)
	if r.Split != nil {
		for _, part := range SplitParts(*r.Split) {
			s.add("time/split/"+part.Tag, part.Value)
		}
	}
	if r.WorldSize > 1 {
		s.add("comm/fraction", r.CommFraction)
		s.positive("comm/seconds", r.CommSeconds)
		for _, k := range sortedKeys(r.CommOps) {
			s.add("comm/"+k+"/seconds", r.CommOps[k].Seconds)
			s.add("comm/"+k+"/exposed", r.CommOps[k].Exposed)
			s.add("comm/"+k+"/bytes", float64(r.CommOps[k].Bytes))
		}
	}
	if r.Skew > 0 {
		s.add("ranks/skew", r.Skew)
		s.add("ranks/slow_rank", float64(r.SlowRank))
	}
	if r.Ranks != nil {
		s.ranks("own", r.Ranks.Own)
		s.ranks("data", r.Ranks.Data)
		s.ranks("comm", r.Ranks.Comm)
		s.ranks("save", r.Ranks.Save)
	}
	for _, k := range sortedKeys(r.Memory) {
		s.add("memory/"+k, float64(r.Memory[k]))
	}
	if r.Resident.Now > 0 {
		s.add("memory/rss", float64(r.Resident.Now))
	}
	if r.Host != nil {
		for _, v := range r.Host.values() {
			s.add("host/"+v.Tag, v.Value)
		}
	}
	if r.Device != nil {
		s.all("device/", r.Device.values())
	}
	return s
}

// Scalars lists the numbers of an evaluation.
func (e Evaluation) Scalars() []Scalar {
	var s scalars
	s.add("eval/loss", e.Loss)
	if e.Accuracy != nil {
		s.add("eval/accuracy", *e.Accuracy)
		if e.MacroF1 != nil {
			s.add("eval/macro_f1", *e.MacroF1)
		}
	} else {
		s.add("eval/perplexity", e.Perplexity())
	}
	s.all("eval/", e.Means)
	return s
}
