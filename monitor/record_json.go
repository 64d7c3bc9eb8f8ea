package monitor

// AppendJSON appends r as a JSON object without a line end. Numbers parse back to the same float64. NaN
// and infinity are null, with a member "nonfinite": true.
func (r Record) AppendJSON(b []byte) []byte {
	w := object{b: append(b, '{')}
	w.integer("step", r.Step)
	w.float("loss", r.Loss)
	w.float("grad_norm", r.GradNorm)
	w.float("lr", r.LR)
	if r.LossScale > 0 {
		w.float("loss_scale", r.LossScale)
	}
	w.floats("means", r.Means)
	if r.EpochLoss != nil {
		w.float("epoch_loss", *r.EpochLoss)
	}
	w.integer("samples", r.Samples)
	w.integer("tokens", r.Tokens)
	w.integer("label_tokens", r.LabelTokens)
	w.float("samples_per_second", r.SamplesPerSecond())
	w.float("tokens_per_second", r.TokensPerSecond())
	w.float("label_tokens_per_second", r.LabelTokensPerSecond())
	w.float("step_seconds", r.StepSeconds)
	if r.StepSecondsMean > 0 {
		w.float("step_seconds_mean", r.StepSecondsMean)
		w.float("step_seconds_std", r.StepSecondsStd)
	}
	if r.SaveSeconds > 0 {
		w.float("save_seconds", r.SaveSeconds)
	}
	if r.MemorySaveSeconds > 0 {
		w.float("memory_save_seconds", r.MemorySaveSeconds)
	}
	if r.EvalSeconds > 0 {
		w.float("eval_seconds_between", r.EvalSeconds)
	}
	if r.Split != nil {
		w.split("split", *r.Split)
	}
	if len(r.CommOps) > 0 {
		w.float("comm_seconds", r.CommSeconds)
		w.commOps("comm_ops", r.CommOps)
	}
	if r.FLOPSPerSecond > 0 {
		w.float("flops_per_second", r.FLOPSPerSecond)
	}
	if r.PeakFLOPS == 0 {
		w.raw("mfu", "null")
	} else {
		w.float("mfu", r.MFU)
		w.float("peak_flops", r.PeakFLOPS)
	}
	w.bytes("memory", r.Memory)
	w.bytes("memory_peak", r.MemoryPeak)
	if r.Resident.Now > 0 {
		w.integer("rss", r.Resident.Now)
		w.integer("rss_peak", r.Resident.Peak)
		w.integer("rss_shared", r.Resident.Shared)
	}
	w.integer("world_size", int64(r.WorldSize))
	if r.MemoryLimit > 0 {
		w.integer("memory_limit", r.MemoryLimit)
	}
	if r.Device != nil {
		w.raw("device", r.Device.json())
	}
	if r.Host != nil {
		w.marshal("host", r.Host)
	}
	if r.MaxSteps > 0 {
		w.integer("max_steps", r.MaxSteps)
	}
	w.float("comm_fraction", r.CommFraction)
	w.float("data_fraction", r.DataFraction)
	if r.Skew > 0 {
		w.float("skew", r.Skew)
		w.integer("slow_rank", int64(r.SlowRank))
	}
	if r.Ranks != nil {
		w.marshal("ranks", r.Ranks)
	}
	if r.Epoch > 0 {
		w.float("epoch", r.Epoch)
	}
	if r.Skipped {
		w.raw("skipped", "true")
	}
	w.run(r.Run)
	w.time(r.Time)
	return w.end()
}

// AppendJSON appends e as Record.AppendJSON does.
func (e Evaluation) AppendJSON(b []byte) []byte {
	w := object{b: append(b, '{')}
	w.integer("step", e.Step)
	w.float("eval_loss", e.Loss)
	if e.Accuracy != nil {
		w.float("accuracy", *e.Accuracy)
		if e.MacroF1 != nil {
			w.float("macro_f1", *e.MacroF1)
		}
	} else {
		w.float("perplexity", e.Perplexity())
	}
	w.floats("means", e.Means)
	w.integer("eval_tokens", e.Tokens)
	w.float("eval_seconds", e.Seconds)
	w.integer("world_size", int64(e.WorldSize))
	w.run(e.Run)
	w.time(e.Time)
	return w.end()
}
