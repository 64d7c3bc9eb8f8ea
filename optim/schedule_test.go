package optim

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestScheduleFirstStepOfWarmupIsZero(t *testing.T) {
	for _, kind := range []string{"linear", "cosine", "constant_with_warmup", "polynomial"} {
		s := Schedule{LRScheduler: kind, LearningRate: 1e-3, LRPower: 1, WarmupSteps: 2, TotalSteps: 12}
		if got := s.At(0); got != 0 {
			t.Errorf("%s: first learning rate is %v, want 0", kind, got)
		}
		if got := s.At(2); math.Abs(got-1e-3) > 1e-18 {
			t.Errorf("%s: learning rate at the end of the warmup is %v, want 1e-3", kind, got)
		}
	}
}

func TestWarmupDecayLR(t *testing.T) {
	s := Schedule{LRScheduler: "WarmupDecayLR", LearningRate: 1, MinLR: 0.1, WarmupSteps: 10, TotalSteps: 20}
	for step, want := range map[int]float64{0: 0.1, 9: 0.1 + 0.9, 10: 1, 15: 0.1 + 0.9*0.5, 20: 0.1, 25: 0.1} {
		if got := s.At(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
}

func TestScheduleRejects(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*Schedule)
		want string
	}{
		"an unknown kind":         {func(s *Schedule) { s.LRScheduler = "cosin" }, `lr_scheduler: "cosin" is not one of`},
		"wsd without a decay":     {func(s *Schedule) { s.LRScheduler = "wsd" }, "lr_scheduler is wsd, which needs the length of the decay. try: training.lr_decay_ratio=0.2"},
		"another warmup type":     {func(s *Schedule) { s.LRScheduler, s.WarmupType = "WarmupLR", "cosine" }, `warmup_type: "cosine" is not one of log, linear`},
		"wsd has no log":          {func(s *Schedule) { s.LRScheduler, s.LRDecaySteps, s.WarmupType = "wsd", 1, "log" }, `warmup_type: "log" is not one of linear, cosine, 1-sqrt`},
		"a share above 1":         {func(s *Schedule) { s.MinLRRatio = 1.5 }, "min_lr_ratio is 1.5: it must be between 0 and 1"},
		"two minimum rates":       {func(s *Schedule) { s.MinLR, s.MinLRRatio = 1e-5, 0.1 }, "min_lr is 1e-05 and min_lr_ratio is 0.1: set only one"},
		"two decay lengths":       {func(s *Schedule) { s.LRDecaySteps, s.LRDecayRatio = 3, 0.1 }, "lr_decay_steps is 3 and lr_decay_ratio is 0.1: set only one"},
		"a power of nothing":      {func(s *Schedule) { s.LRPower = 0 }, "lr_power is 0: it must be positive"},
		"no cosine":               {func(s *Schedule) { s.LRCycles = 0 }, "lr_cycles is 0: it must be at least 1"},
		"an end that is no rate":  {func(s *Schedule) { s.LREnd = math.NaN() }, "lr_end is NaN: it must be a number, 0 or more"},
		"a scale below 0":         {func(s *Schedule) { s.LRTimescale = -1 }, "lr_timescale is -1: it must not be negative"},
		"a decay of another kind": {func(s *Schedule) { s.LRDecayType = "sqrt" }, `lr_decay_type: "sqrt" is not one of linear, cosine, 1-sqrt`},
	} {
		s := DefaultSchedule()
		c.set(&s)
		if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, not %s", name, err, c.want)
		}
	}
	if err := DefaultSchedule().Validate(); err != nil {
		t.Error(err)
	}
}

// Beyond its end a schedule is constant.
func TestScheduleBeyondItsEnd(t *testing.T) {
	for kind, want := range map[string]float64{"linear": 0, "cosine_with_restarts": 0, "polynomial": 1e-7, "wsd": 1e-5, "WarmupDecayLR": 0, "WarmupCosineLR": 1e-4} {
		s := DefaultSchedule()
		s.LRScheduler, s.LearningRate, s.LRDecaySteps, s.LRCycles = kind, 1e-3, 4, 2
		switch kind {
		case "wsd":
			s.MinLR = 1e-5
		case "WarmupCosineLR":
			s.MinLRRatio = 0.1
		}
		s = s.WithTotalSteps(10)
		for _, step := range []int{11, 13, 30} {
			if got := s.At(step); math.Abs(got-want) > 1e-18 {
				t.Errorf("%s: step %d of 10: %v, want %v", kind, step, got, want)
			}
		}
	}
}

// A peak of 0 stays 0 with any minimum.
func TestScheduleOfNoRate(t *testing.T) {
	s := DefaultSchedule()
	s.LearningRate, s.MinLR, s.TotalSteps = 0, 1e-5, 10
	if got := s.At(3); got != 0 {
		t.Errorf("the learning rate is %v", got)
	}
}

// Rates of the reference implementations, from testdata/make_schedules.py.
func TestScheduleTables(t *testing.T) {
	data, err := os.ReadFile("testdata/schedules.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		LearningRate float64 `json:"learning_rate"`
		Steps        int
		Cases        []struct {
			Name string
			Args map[string]any
			LRs  []float64
		}
	}
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	for _, c := range table.Cases {
		s := DefaultSchedule()
		s.LRScheduler, s.LearningRate = c.Name, table.LearningRate
		for i, v := 0, reflect.ValueOf(&s).Elem(); i < v.NumField(); i++ {
			if arg, ok := c.Args[v.Type().Field(i).Tag.Get("yaml")]; ok {
				v.Field(i).Set(reflect.ValueOf(arg).Convert(v.Field(i).Type()))
			}
		}
		if err := s.Validate(); err != nil || len(s.Unused()) > 0 {
			t.Errorf("%s %v: %v, %q", c.Name, c.Args, err, s.Unused())
		}
		s = s.WithTotalSteps(table.Steps)
		for i, want := range c.LRs {
			if got := s.At(i); math.Abs(got-want) > 1e-14*table.LearningRate {
				t.Errorf("%s %v: step %d: %v, want %v", c.Name, c.Args, i, got, want)
			}
		}
	}
	if len(table.Cases) != 18 {
		t.Errorf("the table has %d cases", len(table.Cases))
	}
}

// From transformers' own tests (Apache-2.0; the file names its source).
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
				Cycles        float64 `json:"num_cycles"`
			}
			LRs []float64
		}
	}
	if err := json.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range table.Cases {
		s := Schedule{
			LRScheduler: strings.Replace(c.Name, "_hard", "", 1), LearningRate: table.BaseLR, WarmupSteps: c.Args.Warmup, TotalSteps: c.Args.Total,
			LRPower: c.Args.Power, LREnd: c.Args.LREnd, LRCycles: int(c.Args.Cycles),
		}
		checked++
		for i, want := range c.LRs {
			if got := s.At(i); math.Abs(got-want) > table.Tol {
				t.Errorf("%s: step %d: %v, want %v", c.Name, i, got, want)
			}
		}
	}
	if checked != 6 {
		t.Errorf("only %d schedules of the table were checked", checked)
	}
}
