package optim

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

func TestScheduleFirstStepOfWarmupIsZero(t *testing.T) {
	for _, kind := range []string{"linear", "cosine", "constant_with_warmup", "polynomial"} {
		s := Schedule{Kind: kind, LR: 1e-3, WarmupSteps: 2, TotalSteps: 12}
		if got := s.At(0); got != 0 {
			t.Errorf("%s: first learning rate is %v, want 0", kind, got)
		}
		if got := s.At(2); math.Abs(got-1e-3) > 1e-18 {
			t.Errorf("%s: learning rate at the end of warm-up is %v, want 1e-3", kind, got)
		}
	}
}

func TestWarmupDecayLR(t *testing.T) {
	s := Schedule{Kind: "WarmupDecayLR", LR: 1, MinLR: 0.1, WarmupSteps: 10, TotalSteps: 20}
	for step, want := range map[int]float64{0: 0.1, 9: 0.1 + 0.9, 10: 1, 15: 0.1 + 0.9*0.5, 20: 0.1, 25: 0.1} {
		if got := s.At(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
}

func TestScheduleRejectsUnknownKinds(t *testing.T) {
	if (Schedule{Kind: "cosin"}).Validate() == nil {
		t.Error("an unknown schedule was accepted")
	}
}

// The table is of transformers' own tests (Apache-2.0; the file names its source).
func TestScheduleTablesOfTransformers(t *testing.T) {
	data, err := os.ReadFile("testdata/hf_lr_schedules.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		BaseLR float64 `json:"base_lr"`
		Tol    float64
		Cases  []struct {
			Name string
			Args struct {
				Warmup, Total int
				Power         float64
				LREnd         float64 `json:"lr_end"`
			}
			LRs []float64
		}
	}
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range table.Cases {
		s := Schedule{Kind: c.Name, LR: table.BaseLR, WarmupSteps: c.Args.Warmup, TotalSteps: c.Args.Total, Power: c.Args.Power, EndLR: c.Args.LREnd}
		if s.Validate() != nil {
			continue
		}
		checked++
		for i, want := range c.LRs {
			if got := s.At(i); math.Abs(got-want) > table.Tol {
				t.Errorf("%s: step %d: %v, want %v", c.Name, i, got, want)
			}
		}
	}
	if checked < 5 {
		t.Errorf("only %d schedules of the table were checked", checked)
	}
}
