package monitor

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"trireme/trace"
)

// Parse reads one line of metrics.jsonl. Exactly one of the results is not nil unless there is an
// error. It ignores unknown keys; a null loss or norm is NaN.
func Parse(line []byte) (*Record, *Evaluation, error) {
	var j struct {
		Step        int64                   `json:"step"`
		Loss        *float64                `json:"loss"`
		GradNorm    *float64                `json:"grad_norm"`
		LR          *float64                `json:"lr"`
		LossScale   float64                 `json:"loss_scale"`
		EpochLoss   *float64                `json:"epoch_loss"`
		Samples     int64                   `json:"samples"`
		Tokens      int64                   `json:"tokens"`
		LabelTokens int64                   `json:"label_tokens"`
		StepSeconds *float64                `json:"step_seconds"`
		StepMean    float64                 `json:"step_seconds_mean"`
		StepStd     float64                 `json:"step_seconds_std"`
		SaveSeconds float64                 `json:"save_seconds"`
		MemorySaves float64                 `json:"memory_save_seconds"`
		EvalBetween float64                 `json:"eval_seconds_between"`
		Split       *trace.Split            `json:"split"`
		CommSeconds float64                 `json:"comm_seconds"`
		CommOps     map[string]trace.CommOp `json:"comm_ops"`
		FLOPS       float64                 `json:"flops_per_second"`
		Ranks       *Ranks                  `json:"ranks"`
		Host        *Host                   `json:"host"`
		MFU         float64                 `json:"mfu"`
		PeakFLOPS   float64                 `json:"peak_flops"`
		Memory      map[string]int64        `json:"memory"`
		MemoryPeak  map[string]int64        `json:"memory_peak"`
		RSS         int64                   `json:"rss"`
		RSSPeak     int64                   `json:"rss_peak"`
		RSSShared   int64                   `json:"rss_shared"`
		MemoryLimit int64                   `json:"memory_limit"`
		Device      *deviceJSON             `json:"device"`
		MaxSteps    int64                   `json:"max_steps"`
		WorldSize   int                     `json:"world_size"`
		Comm        float64                 `json:"comm_fraction"`
		Data        float64                 `json:"data_fraction"`
		Skew        float64                 `json:"skew"`
		SlowRank    int                     `json:"slow_rank"`
		Epoch       float64                 `json:"epoch"`
		Skipped     bool                    `json:"skipped"`
		Time        time.Time               `json:"time"`
		Run         string                  `json:"run"`
		EvalLoss    json.RawMessage         `json:"eval_loss"`
		EvalTokens  int64                   `json:"eval_tokens"`
		EvalSeconds float64                 `json:"eval_seconds"`
		Accuracy    *float64                `json:"accuracy"`
		MacroF1     *float64                `json:"macro_f1"`
		Means       map[string]*float64     `json:"means"`
	}
	if err := json.Unmarshal(line, &j); err != nil {
		return nil, nil, fmt.Errorf("monitor: %w", err)
	}
	number := func(p *float64) float64 {
		if p == nil {
			return math.NaN()
		}
		return *p
	}
	var means map[string]float64
	for k, v := range j.Means {
		if means == nil {
			means = map[string]float64{}
		}
		means[k] = number(v)
	}
	if j.EvalLoss != nil {
		e := &Evaluation{Step: j.Step, Time: j.Time, Run: j.Run, Tokens: j.EvalTokens, Seconds: j.EvalSeconds, Accuracy: j.Accuracy, MacroF1: j.MacroF1, Means: means, WorldSize: j.WorldSize}
		var loss *float64
		if err := json.Unmarshal(j.EvalLoss, &loss); err != nil {
			return nil, nil, fmt.Errorf("monitor: eval_loss: %w", err)
		}
		e.Loss = number(loss)
		return nil, e, nil
	}
	return &Record{
		Step: j.Step, Epoch: j.Epoch, Time: j.Time, Run: j.Run, Loss: number(j.Loss), GradNorm: number(j.GradNorm), LR: number(j.LR), LossScale: j.LossScale, Means: means, Skipped: j.Skipped,
		EpochLoss: j.EpochLoss, Samples: j.Samples, Tokens: j.Tokens, LabelTokens: j.LabelTokens, StepSeconds: number(j.StepSeconds),
		StepSecondsMean: j.StepMean, StepSecondsStd: j.StepStd, SaveSeconds: j.SaveSeconds, MemorySaveSeconds: j.MemorySaves, EvalSeconds: j.EvalBetween,
		Split: j.Split, CommSeconds: j.CommSeconds, CommOps: j.CommOps, FLOPSPerSecond: j.FLOPS, Ranks: j.Ranks, Host: j.Host,
		MFU: j.MFU, PeakFLOPS: j.PeakFLOPS,
		WorldSize:    j.WorldSize,
		CommFraction: j.Comm, DataFraction: j.Data, Skew: j.Skew, SlowRank: j.SlowRank, Memory: j.Memory, MemoryPeak: j.MemoryPeak,
		Resident: Resident{Now: j.RSS, Peak: j.RSSPeak, Shared: j.RSSShared}, MemoryLimit: j.MemoryLimit, MaxSteps: j.MaxSteps, Device: j.Device.device(),
	}, nil, nil
}
