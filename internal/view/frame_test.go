package view

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"trireme/monitor"
	"trireme/trace"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func pointer(v float64) *float64 { return &v }

// busyRun is a state with every field, of four ranks. Rank 2 is slow.
func busyRun() *State {
	s := NewState()
	s.began = now.Add(-time.Hour)
	s.Run = Run{Dir: "runs/sft-3", About: "qwen2, 494,032,768 parameters, 4 ranks, full_shard, cpu", Planned: map[string]int64{"total": 96 << 28}}
	for i := int64(1); i <= 1240; i++ {
		r := sample(i)
		t := float64(i)
		r.Time = now.Add(time.Duration(i-1240) * 700 * time.Millisecond)
		r.Loss = 2 + 3*math.Exp(-t/300) + 0.05*math.Sin(t/7)
		r.GradNorm = 0.8 + 0.3*math.Sin(t/90)
		r.LR = 3e-4 * math.Min(t/100, 1) * (1 + math.Cos(math.Pi*t/5000)) / 2
		r.WorldSize, r.Skew, r.SlowRank = 4, 1.31, 2
		r.StepSeconds, r.StepSecondsMean, r.StepSecondsStd = 0.655+0.05*math.Sin(t/50), 0.66, 0.012
		r.Split = &trace.Split{Data: 0.004, Forward: 0.171, Backward: 0.302, Recompute: 0.02, Optimizer: 0.045, Comm: 0.061, Wait: 0.044, Other: 0.008}
		r.CommSeconds = 0.21
		r.CommOps = map[string]trace.CommOp{
			"all_gather/shard":     {Count: 26, Bytes: 1 << 30, Seconds: 0.1, Exposed: 0.05},
			"reduce_scatter/shard": {Count: 13, Bytes: 1 << 30, Seconds: 0.11, Exposed: 0.055},
		}
		r.Ranks = &monitor.Ranks{Own: []float64{0.55, 0.548, 0.72, 0.551}, Data: []float64{0.004, 0.003, 0.004, 0.004}, Comm: []float64{0.105, 0.108, 0.01, 0.104}, Save: []float64{0, 0, 0, 0}}
		r.MemoryPeak = map[string]int64{"parameters": 4 << 30, "optimizer": 8 << 30, "activations": 10 << 30, "total": 94 << 28}
		r.Host = &monitor.Host{CPU: pointer(31.2), Load: pointer(33.5), MemoryAvailable: pointer(210 << 30), DiskFree: pointer(900 << 30), DiskRead: pointer(1 << 20), DiskWrite: pointer(12 << 20), NetReceive: pointer(130 << 20), NetSend: pointer(128 << 20)}
		s.Record(r)
	}
	s.left = 43 * time.Minute
	s.Evaluate(monitor.Evaluation{Step: 1200, Loss: 2.0412})
	s.Saved = &Checkpoint{1200, now.Add(-28 * time.Second)}
	s.Limit = "slow rank: 23% of a step waits for rank 2, whose own time is 1.31 times the median"
	s.Note("mfu: relative to 249 GFLOP/s = 4 ranks x 62.2 GFLOP/s")
	s.Note("saved runs/sft-3/checkpoints/step-1100")
	s.Note("\x1b[2J\x1b]0;title\a an escape\tsequence, 表 wide 文字 and a\r\nline end")
	s.Note("saved runs/sft-3/checkpoints/step-1200")
	return s
}

const watchHint = "q quit  ? keys  tab pane"

// TestFrames compares frames with testdata. UPDATE=1 rewrites them.
func TestFrames(t *testing.T) {
	ended := busyRun()
	ended.Over, ended.Ended = true, "done after 0h52m"
	failed := busyRun()
	failed.Over, failed.Bad, failed.Ended, failed.Warning = true, true, "exit code 76 after 0h52m", "the loss rises since step 1100"
	for _, c := range []struct {
		name string
		s    *State
		o    options
	}{
		{"watch-200x50", busyRun(), options{width: 200, height: 49, unicode: true, notes: true}},
		{"watch-120x36", busyRun(), options{width: 120, height: 35, unicode: true, notes: true}},
		{"watch-80x24", busyRun(), options{width: 80, height: 23, unicode: true, notes: true}},
		{"watch-60x20", busyRun(), options{width: 60, height: 19, unicode: true, notes: true}},
		{"watch-40x12", busyRun(), options{width: 40, height: 11, unicode: true, notes: true}},
		{"watch-80x24-ascii", busyRun(), options{width: 80, height: 23, notes: true}},
		{"watch-ended-80x24", ended, options{width: 80, height: 23, unicode: true, notes: true}},
		{"watch-failed-80x12", failed, options{width: 80, height: 11, unicode: true, notes: true}},
		{"train-100x24", busyRun(), options{width: 100, height: inlineHeight(24), unicode: true, hint: stopHint}},
		{"train-140x60", busyRun(), options{width: 140, height: inlineHeight(60), unicode: true, hint: stopHint}},
		{"chart-80x24", busyRun(), options{width: 80, height: 23, unicode: true, pane: chartPane}},
		{"time-80x24", busyRun(), options{width: 80, height: 23, unicode: true, pane: timePane}},
		{"ranks-100x12", busyRun(), options{width: 100, height: 11, unicode: true, pane: ranksPane}},
		{"notes-40x12", busyRun(), options{width: 40, height: 11, unicode: true, pane: notesPane}},
		{"help-40x12", busyRun(), options{width: 40, height: 11, unicode: true, help: true}},
		{"once", busyRun(), options{width: 100, unicode: true, notes: true}},
		{"starting-40x12", NewState(), options{width: 40, height: 11, unicode: true, notes: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.hint == "" && c.name != "once" {
				c.o.hint = watchHint
			}
			if c.s.steps == 0 {
				c.s.began = now.Add(-3 * time.Second)
			}
			got := strings.Join(c.s.lines(now, c.o), "\n") + "\n"
			path := filepath.Join("testdata", "frames", c.name+".txt")
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, []byte(got)) {
				t.Errorf("%s is\n%s", path, got)
			}
		})
	}
}

// Every frame fits any terminal and has no control character from a file.
func TestFrameFits(t *testing.T) {
	odd := busyRun()
	odd.last.Loss, odd.last.GradNorm, odd.last.StepSeconds = math.NaN(), math.Inf(1), math.NaN()
	odd.last.Means = map[string]float64{"kl\x1b[31m": 1, "表": 2}
	odd.last.Device = &monitor.Device{Name: "GPU\x1b[2J\r", Count: 2, Utilization: math.NaN(), Error: "\x9b31m broken\n"}
	odd.last.Ranks = &monitor.Ranks{Own: make([]float64, 64)}
	odd.Run.Dir = "runs/\x1b[5n表表表"
	odd.Limit, odd.Warning = "a\nb \x1b[0m", "zalgo "+strings.Repeat("e\u0301\u0301\u0301\u0301\u0301\u0301\u0301", 20)
	for range 40 {
		odd.Note(strings.Repeat("表\u202e\u200b\x1b[1A", 30))
	}
	for _, s := range []*State{NewState(), busyRun(), odd} {
		for width := 1; width <= 200; width += 1 + width/8 {
			for height := 0; height < 60; height += 1 + height/4 {
				for p := range panes + 1 {
					o := options{width: width, height: height, unicode: width%2 == 0, s: colors, notes: height%2 == 0, hint: watchHint, pane: p % panes, help: p == panes, metric: width % len(metrics), offset: height}
					lines := s.lines(now, o)
					if height > 0 && len(lines) > height {
						t.Fatalf("%d x %d, %v: %d lines", width, height, p, len(lines))
					}
					for _, l := range lines {
						if displayWidth(l) >= max(width, 2) || !utf8.ValidString(l) {
							t.Fatalf("%d x %d, %v: %q has %d columns", width, height, p, l, displayWidth(l))
						}
						if bad := controls(l); bad != "" {
							t.Fatalf("%d x %d, %v: %q has %q", width, height, p, l, bad)
						}
					}
				}
			}
		}
	}
}

// controls returns a control character of a line that is no color of a frame.
func controls(line string) string {
	for _, style := range []string{colors.bold, colors.dim, colors.accent, colors.warn, colors.bad, colors.good, colors.reset, "\x1b[34m", "\x1b[35m"} {
		line = strings.ReplaceAll(line, style, "")
	}
	for _, r := range line {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u200b' {
			return fmt.Sprintf("%U", r)
		}
	}
	return ""
}

func TestCurve(t *testing.T) {
	var c curve
	for i := range 3000 {
		c.add(float64(i))
		if len(c.points) >= maxPoints {
			t.Fatal("the curve grows")
		}
	}
	if got := c.draw(8, true); got != "▁▁▂▃▄▅▆█" {
		t.Error(got)
	}
	lines, low, high := c.plot(4, 2, true)
	if strings.Join(lines, "|") != "  ▂█|▁▅██" || low > 400 || high < 2500 {
		t.Errorf("%q %v %v", lines, low, high)
	}
	c.fill([]float64{4, 3, 2, 1}, 10)
	for range 10 {
		c.add(0)
	}
	if len(c.points) != 5 || c.points[4] != 0 {
		t.Errorf("%v", c)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a\tb\nc", "a b c"}, {"\x1b[2J", `\x1b[2J`}, {"\u009b1m", `\x9b1m`}, {"a\u202eb", `a\u202eb`}, {"\xff", `\xff`}, {"e\u0301\u0301\u0301\u0301\u0301\u0301", "e\u0301\u0301\u0301\u0301"},
	} {
		if got := clean(c.text); got != c.want {
			t.Errorf("%q: %q", c.text, got)
		}
	}
	if got := truncate("表表表", 5, "…"); got != "表表…" {
		t.Error(got)
	}
	if got := fmt.Sprintf("%q", wrap("a note of several words 表表", 10)); got != `["a note of" "several" "words 表表"]` {
		t.Error(got)
	}
}
