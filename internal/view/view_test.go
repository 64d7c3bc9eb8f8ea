package view

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"trireme/monitor"
)

func TestFrame(t *testing.T) {
	now := time.Unix(1000, 0)
	f := NewState()
	f.began = now.Add(-3 * time.Second)
	lines := func(now time.Time, width int, unicode bool, s styles) []string {
		hint := stopHint
		if f.Over {
			hint = ""
		}
		return f.lines(now, options{width: width, unicode: unicode, s: s, hint: hint})
	}
	if got := strings.Join(lines(now, 80, true, styles{}), "|"); got != "starting  3s|Ctrl-C saves and stops" {
		t.Error(got)
	}
	r := sample(1240)
	r.Time = now
	r.Memory, r.MemoryPeak = nil, map[string]int64{"parameters": 3 << 30, "optimizer": 6 << 30, "logits": 0}
	f.last, f.steps, f.left = r, 3, 43*time.Minute
	for i := range 20 {
		f.curves["loss"].add(float64(20 - i))
	}
	f.curves["loss"].add(math.NaN())
	f.eval = &monitor.Evaluation{Step: 1200, Loss: 2}
	for _, c := range []struct {
		width   int
		unicode bool
		want    string
	}{
		{101, true, `step   1240/5000  ━━━━━━━━━───────────────────────────────  25%  eta 0h43m
loss   2.1431  █▇▇▆▆▆▅▅▅▄▄▃▃▃▂▂▂▁▁▁  lr 2.71e-05  gnorm 0.84
speed  800,440 tok/s  step 655 ms  mfu 38.6% of 249 GFLOP/s  comm 11.3%  data 0.4%  ranks 2
memory 61.4GiB of 79.6GiB  peak:  optimizer 6.0GiB  parameters 3.0GiB
eval   2.0000  perplexity 7.39  at step 1200
Ctrl-C saves and stops`},
		{61, true, `step   1240/5000  ━━━━━━───────────────────  25%  eta 0h43m
loss   2.1431  █▇▇▆▅▅▄▄▃▃▂▂▁▁  lr 2.71e-05  gnorm 0.84
speed  800,440 tok/s  step 655 ms  mfu 38.6% …
memory 61.4GiB of 79.6GiB  peak:  optimizer 6.0GiB …
eval   2.0000  perplexity 7.39  at step 1200
Ctrl-C saves and stops`},
		{41, false, `step   1240/5000  =----  25%  eta 0h43m
loss   2.1431  lr 2.71e-05  gnorm 0.84
speed  800,440 tok/s  step 655 ms ..
memory 61.4GiB of 79.6GiB ..
eval   2.0000  perplexity 7.39 ..
Ctrl-C saves and stops`},
		{21, true, `step   1240/5000 …
loss   2.1431 …
speed  800,440 …
memory 61.4GiB …
eval   2.0000 …
Ctrl-C saves and …`},
	} {
		if got := strings.Join(lines(now, c.width, c.unicode, styles{}), "\n"); got != c.want {
			t.Errorf("%d columns:\n%s\n%s", c.width, got, c.want)
		}
	}
	if got := lines(now.Add(8*time.Second), 81, false, colors)[0]; !strings.Contains(got, "\x1b[33msince last step 8s\x1b[0m") || strings.ContainsRune(got, '━') {
		t.Errorf("%q", got)
	}
	f.Over = true
	if got := lines(now, 81, true, styles{}); strings.Contains(strings.Join(got, "\n"), stopHint) {
		t.Errorf("a run that is over cannot be stopped: %q", got)
	}
}

// Label throughput is shown if it differs from tokens.
func TestFrameOfLabels(t *testing.T) {
	f := NewState()
	f.Record(monitor.Record{Samples: 4, Tokens: 200, LabelTokens: 50, StepSeconds: 0.5, WorldSize: 1})
	if got := f.lines(time.Now(), options{width: 120, unicode: true})[2]; got != "speed  400 tok/s  labels 100/s  samples 8.00/s  step 500 ms  mfu n/a  data 0.0%" {
		t.Error(got)
	}
}

func TestView(t *testing.T) {
	s := &terminal{}
	v := NewView(s, Terminal{Color: true, Unicode: true, Size: fixed(100, 0)})
	s.waitFor(t, "starting")
	v.Note("train: 12 rows")
	for i := int64(1); i <= 5; i++ {
		r := sample(i)
		r.MaxSteps, r.Time = 5, time.Now()
		if err := v.Record(r); err != nil {
			t.Fatal(err)
		}
		s.waitFor(t, fmt.Sprintf("step   %d/5", i))
		fmt.Fprintf(v, "line %d\nhal", i)
		s.waitFor(t, fmt.Sprintf("line %d", i))
		fmt.Fprintf(v, "f\n")
	}
	v.Evaluate(monitor.Evaluation{Step: 5, Loss: 2})
	v.Write([]byte("10%\r20%\nno end"))
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(s.String(), "\n")
	want := "train: 12 rows,line 1,half,line 2,half,line 3,half,line 4,half,line 5,half,20%,no end"
	if strings.Join(got[:13], ",") != want || !strings.HasPrefix(got[13], "step   5/5") || !strings.HasPrefix(got[17], "eval") || len(got) != 18 {
		t.Fatalf("%s", s)
	}
}

// On a small terminal a view erases line by line and never exceeds the screen, so no frame enters the
// history.
func TestViewLeavesNoHistory(t *testing.T) {
	s := &terminal{}
	v := NewView(s, Terminal{Size: fixed(30, 4)})
	for i := int64(1); i <= 4; i++ {
		r := sample(i)
		r.Time = time.Now()
		v.Record(r)
		s.waitFor(t, fmt.Sprintf("step   %d/5000", i))
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	out, rows := s.bytes.String(), len(s.rows)
	s.mu.Unlock()
	if strings.Contains(out, "J") || rows > 4 {
		t.Errorf("%d rows: %q", rows, out)
	}
}

// A typed line moves the cursor down; the view redraws over it.
func TestViewWhereLinesAreTyped(t *testing.T) {
	var typed atomic.Int64
	s := &terminal{}
	v := NewView(s, Terminal{Size: fixed(60, 24), PendingInput: func() int { return int(typed.Load()) }})
	r := sample(1)
	for range 3 {
		r.Step, r.Time = r.Step+1, time.Now()
		v.Record(r)
		s.waitFor(t, fmt.Sprintf("step   %d/5000", r.Step))
		io.WriteString(s, "q\r\n") // as the terminal echoes it
		typed.Add(2)
		time.Sleep(3 * pollEvery)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.String(); strings.Count(got, "step   ") != 1 || strings.Contains(got, "q") || strings.Contains(got, stopHint) {
		t.Errorf("%s", got)
	}
}

// A terminal that shrinks and grows shows the view once.
func TestViewOnATerminalThatIsMadeLower(t *testing.T) {
	s := &terminal{low: 24}
	v := NewView(s, Terminal{Size: func() (int, int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return 60, s.low
	}})
	v.Note("a line above")
	for i, rows := range []int{24, 3, 5, 24, 2, 24} {
		s.mu.Lock()
		s.low = rows
		s.mu.Unlock()
		r := sample(int64(i + 1))
		r.Time = time.Now()
		v.Record(r)
		s.waitFor(t, fmt.Sprintf("step   %d/5000", i+1))
	}
	v.Close()
	if got := s.String(); strings.Count(got, "step   ") != 1 || strings.Count(got, "loss   ") != 1 || !strings.HasPrefix(got, "a line above\nstep   6/5000") {
		t.Errorf("%s", got)
	}
}

// The epoch's mean loss is a line above the view.
func TestViewOfEpochs(t *testing.T) {
	s := &terminal{}
	v := NewView(s, Terminal{Size: fixed(80, 24)})
	r, mean := sample(7), 1.5
	r.Epoch, r.EpochLoss = 2, &mean
	v.Record(r)
	v.Close()
	if got := s.String(); !strings.HasPrefix(got, "epoch=2 step=7 mean_loss=1.5000\nstep ") {
		t.Errorf("%s", got)
	}
}

// A stalled terminal blocks no caller.
func TestViewIsNotHeldUp(t *testing.T) {
	s := &terminal{stuck: make(chan struct{})}
	v := NewView(s, Terminal{Size: fixed(80, 24)})
	began := time.Now()
	for i := int64(1); i <= 1000; i++ {
		v.Record(sample(i))
		fmt.Fprintln(v, strings.Repeat("x", 2000))
	}
	if took := time.Since(began); took > 30*time.Second { // it would be for ever
		t.Errorf("took %v", took)
	}
	if err := v.Close(); err == nil {
		t.Error("it was closed before the terminal had the last state")
	}
	close(s.stuck)
	<-v.done
	if !strings.Contains(s.String(), "of output not shown") {
		t.Error("dropped output is not mentioned")
	}
}

func sample(step int64) monitor.Record {
	return monitor.Record{
		Step: step, MaxSteps: 5000, Time: time.Date(2026, 1, 2, 3, 4, int(step%60), 0, time.UTC),
		Loss: 2.143099999999999, GradNorm: 0.8375, LR: 2.71e-5, Samples: 512, Tokens: 524288, LabelTokens: 523776, StepSeconds: 0.655, MFU: 0.386, PeakFLOPS: 249e9, WorldSize: 2,
		CommFraction: 0.113, DataFraction: 0.004, Memory: map[string]int64{"parameters": 10, "gradients": 20}, MemoryPeak: map[string]int64{"parameters": 11},
		Resident: monitor.Resident{Now: 614 << 30 / 10, Peak: 62 << 30, Shared: 3}, MemoryLimit: 796 << 30 / 10,
	}
}

func TestDeviceRow(t *testing.T) {
	r := sample(1)
	r.Device = &monitor.Device{
		Name: "NVIDIA H200", Count: 2, Utilization: 0.9, MemoryUsed: 5 << 30, MemoryTotal: 140 << 30, Power: 1225, PowerLimit: 1400, Temperature: 62, SMClock: 1979,
		Throttled: []string{"power cap"}, Error: "GPU 1 reported XID 48",
	}
	f := NewState()
	f.Record(r)
	lines := strings.Join(f.lines(time.Now(), options{width: 200, unicode: true}), "\n")
	const want = "device 90%  2 x NVIDIA H200  memory 5.0GiB of 140.0GiB  power 1225 W of 1400 W  temperature 62 C  clock 1979 MHz  throttled: power cap  GPU 1 reported XID 48"
	if !strings.Contains(lines, want) {
		t.Errorf("the view has\n%s\nwant %s", lines, want)
	}
}
