package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"trireme/checkpoint"
	"trireme/internal/objectstore/objectstoretest"
	"trireme/monitor"
	"trireme/tensor"
	"trireme/train"
)

// TestBestInStore: the summary finds the checkpoint of the best evaluation in an object store, as the first tier or the
// last one.
func TestBestInStore(t *testing.T) {
	objectstoretest.Start(t)
	dir := "s3://" + objectstoretest.Bucket + "/run"
	s, err := checkpoint.NewStore("", "a-run", checkpoint.Config{Dir: dir}, checkpoint.SingleProcess{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	item := checkpoint.Item{Kind: checkpoint.Param, Shard: tensor.Shard{
		Name: "w", DType: tensor.F32, Shape: tensor.Shape{1}, Box: tensor.FullBox(tensor.Shape{1}), Data: tensor.Of(tensor.NewBuffer(b, len(b), tensor.Params, nil), tensor.F32, 0, 1),
	}}
	if _, err := s.Save(t.Context(), checkpoint.Meta{Step: 2}, []checkpoint.Item{item}); err != nil {
		t.Fatal(err)
	}
	r := &runResult{evals: []monitor.Evaluation{{Step: 2, Loss: 1}, {Step: 4, Loss: 2}}}
	for name, cfg := range map[string]checkpoint.Config{"first": {Dir: dir}, "last": {Tiers: []checkpoint.Tier{{}, {Dir: dir}}}} {
		c := train.Config{OutputDir: t.TempDir(), Checkpoint: cfg}
		var out bytes.Buffer
		var report trainReport
		r.printDone(t.Context(), &out, c, time.Second)
		r.report(t.Context(), &report, c)
		if want := dir + "/step-2-1-"; !strings.Contains(out.String(), "at step 2 ("+want) || !strings.HasPrefix(report.Best.Checkpoint, want) {
			t.Errorf("%s tier: %q, %q", name, &out, report.Best.Checkpoint)
		}
	}
}
