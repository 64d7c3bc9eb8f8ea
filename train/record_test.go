package train_test

import (
	"context"
	"errors"
	"math"
	"os"
	"testing"

	"trireme/collective"
	"trireme/collective/collectivetest"
	"trireme/model"
	"trireme/model/llama"
	"trireme/monitor"
	"trireme/train"
)

// Tokens and label tokens are counted separately, and MFU counts attention within rows and the head for
// label tokens only.
func TestRecordOfUnevenRows(t *testing.T) {
	j := newResumable(t, false, false)
	c := j.config
	rows := `{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "labels": [-100, -100, -100, -100, -100, -100, 7, 8, 9, 10]}
{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}
{"input_ids": [4, 5]}
{"input_ids": [6, 7, 8, 9]}
`
	if err := os.WriteFile(c.Data.Path, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Data.EvalFraction, c.Data.Shuffle = 0, false
	c.Training.GlobalBatchSize, c.Training.GradientAccumulationSteps, c.Training.MicroBatchSize, c.Training.MaxSteps = 0, 1, 2, 4
	deps, done := j.alone(t, nil)
	defer done()
	deps.PeakFLOPS = 1e9
	r, err := train.Open(context.Background(), c, deps)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var recs []monitor.Record
	for rec, err := range r.Steps(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, rec)
	}
	b, err := os.ReadFile(c.Model.Config)
	if err != nil {
		t.Fatal(err)
	}
	config, err := model.Registry{llama.Family}.ParseConfig("config.json", b)
	if err != nil {
		t.Fatal(err)
	}
	info, err := train.ModelInfo(config)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		tokens, labels int64
		rows           [2]int64
	}{{13, 6, [2]int64{10, 3}}, {6, 4, [2]int64{2, 4}}, {13, 6, [2]int64{10, 3}}, {6, 4, [2]int64{2, 4}}} {
		rec := recs[i]
		if rec.Samples != 2 || rec.Tokens != want.tokens || rec.LabelTokens != want.labels {
			t.Errorf("step %d: %d rows, %d tokens, %d with labels; want 2, %v", i+1, rec.Samples, rec.Tokens, rec.LabelTokens, want)
		}
		mfu := (info.FLOPs(want.rows[0], 0) + info.FLOPs(want.rows[1], want.labels)) / rec.StepSeconds / 1e9
		if math.Abs(rec.MFU/mfu-1) > 1e-12 || rec.PeakFLOPS != 1e9 {
			t.Errorf("step %d: MFU %v of %v, want %v", i+1, rec.MFU, rec.PeakFLOPS, mfu)
		}
		if i%2 == 0 {
			if rec.EpochLoss != nil {
				t.Errorf("step %d ends no epoch", i+1)
			}
			continue
		}
		first := recs[i-1]
		mean := (first.Loss*float64(first.LabelTokens) + rec.Loss*float64(rec.LabelTokens)) / 10
		if rec.EpochLoss == nil || *rec.EpochLoss != mean {
			t.Errorf("step %d: mean loss %v of the epoch, want %v", i+1, rec.EpochLoss, mean)
		}
	}
}

// MFU is the work of all ranks over their total peak.
func TestPeakOfAllRanks(t *testing.T) {
	j := newResumable(t, false, false)
	c := j.config
	c.Training.MaxSteps = 1
	const world = 2
	meet := collectivetest.NewBootstrap(world)
	collectivetest.Ranks(t, world, func(w collective.World) error {
		deps := train.Deps{Registry: model.Registry{llama.Family}, World: w, ProcessGroup: meet.Rank(w.Rank()), LocalRanks: world, PeakFLOPS: 1e9}
		r, err := train.Open(context.Background(), c, deps)
		if err != nil {
			return err
		}
		for rec, err := range r.Steps(context.Background()) {
			if err != nil {
				return errors.Join(err, r.Close())
			}
			if rec.PeakFLOPS != world*1e9 || !(rec.MFU > 0) {
				t.Errorf("rank %d: MFU %v of %v", w.Rank(), rec.MFU, rec.PeakFLOPS)
			}
		}
		return r.Close()
	})
}
