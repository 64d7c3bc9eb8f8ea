package trackers

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"trireme/monitor"
)

// tensorBoardRead is the reply of read_tensorboard.py.
type tensorBoardRead struct {
	Scalars    map[string][][2]any
	Histograms map[string]struct {
		Step                     int64
		Min, Max, Num, Sum, Sum2 float64
		Limits, Counts           []float64
		Shown                    [][3]float64 // from, to and count, as the Histograms tab has them
	}
	Texts      map[string][][2]any
	HParams    map[string]any
	Experiment struct {
		Name    string
		Created float64
		HParams map[string]string // types
		Metrics []string
	}
	Group              string
	Start, End, Status float64
}

func TestTensorBoardPackage(t *testing.T) {
	py := python(t, "tensorboard")
	t.Parallel()
	run := testRun(t, nil)
	tb, err := monitor.OpenTensorBoard(run.Dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	tb.Text(run.Started, 0, "config", "a: 1\n\n# <script> `x` **b**\n")
	if err := tb.Params(run.Started, run.Name, run.Params); err != nil {
		t.Fatal(err)
	}
	feed(tb)
	if err := tb.Close(); err != nil {
		t.Fatal(err)
	}
	var got tensorBoardRead
	script(t, &got, environment(t), py, "read_tensorboard.py", run.Dir)
	for _, tag := range tags() {
		want := 3
		if strings.HasPrefix(tag, "eval/") {
			want = 1
		}
		if len(got.Scalars[tag]) != want {
			t.Errorf("%s: %v", tag, got.Scalars[tag])
		}
	}
	if v := fmt.Sprint(got.Scalars["train/loss"], got.Scalars["train/grad_norm"][0], got.Scalars["eval/loss"]); v != "[[1 4.0] [2 2.0] [3 1.3333333730697632]] [1 inf] [[3 nan]]" {
		t.Error(v)
	}
	texts := map[string][][2]any{
		"config/text_summary": {{0.0, "    a: 1\n    \n    # <script> `x` **b**\n    "}},
		"notes/text_summary":  {{3.0, `    saved \x1b[31m checkpoint`}},
	}
	if !reflect.DeepEqual(got.Texts, texts) {
		t.Errorf("%q, not %q", got.Texts, texts)
	}
	checkHistograms(t, got)
	checkHParams(t, got, run)
}

// checkHistograms checks the counts of testHistograms: 0 and 1e-20 in the bucket around 0, 0.5, 1 with 1.2, and -3.
func checkHistograms(t *testing.T, got tensorBoardRead) {
	t.Helper()
	tiny := math.Ldexp(1, -40)
	counts := map[[2]float64]float64{{-4, -3}: 1, {-tiny, tiny}: 2, {0.5, 0.75}: 1, {1, 1.5}: 2}
	sum, sum2 := -3.5+0.625+2*1.25, 3.5*3.5+0.625*0.625+2*1.25*1.25 // of the centers
	if len(got.Histograms) != 2 {
		t.Errorf("%d histograms", len(got.Histograms))
	}
	for _, tag := range []string{"weights/layers.0.w", "gradients/layers.0.w"} {
		h := got.Histograms[tag]
		if h.Step != 3 || h.Num != 6 || h.Min != -4 || h.Max != 1.5 || h.Sum != sum || h.Sum2 != sum2 {
			t.Errorf("%s: step %d, %v values from %v to %v, sums %v and %v, not %v and %v", tag, h.Step, h.Num, h.Min, h.Max, h.Sum, h.Sum2, sum, sum2)
		}
		read, shown := map[[2]float64]float64{}, map[[2]float64]float64{}
		for i, n := range h.Counts {
			if i > 0 && h.Limits[i] <= h.Limits[i-1] {
				t.Errorf("%s: limit %v after %v", tag, h.Limits[i], h.Limits[i-1])
			}
			if n > 0 {
				read[[2]float64{h.Limits[max(0, i-1)], h.Limits[i]}] = n
			}
		}
		for _, b := range h.Shown {
			if b[2] > 0 {
				shown[[2]float64{b[0], b[1]}] = b[2]
			}
		}
		if !reflect.DeepEqual(read, counts) || !reflect.DeepEqual(shown, counts) {
			t.Errorf("%s: %v, shown as %v, not %v", tag, read, shown, counts)
		}
	}
}

// checkHParams checks the hyper-parameters of testRun with their types, and the times of the session.
func checkHParams(t *testing.T, got tensorBoardRead, run Run) {
	t.Helper()
	values := map[string]any{"name": "run", "training.learning_rate": 0.001, "training.betas": "[0.9 0.95]", "model.path": `a\x1b[31m`, "model.on": true, "empty": ""}
	if !reflect.DeepEqual(got.HParams, values) {
		t.Errorf("%v, not %v", got.HParams, values)
	}
	types := map[string]string{}
	for key, v := range values {
		types[key] = map[string]string{"string": "DATA_TYPE_STRING", "float64": "DATA_TYPE_FLOAT64", "bool": "DATA_TYPE_BOOL"}[reflect.TypeOf(v).String()]
	}
	if !reflect.DeepEqual(got.Experiment.HParams, types) {
		t.Errorf("%v, not %v", got.Experiment.HParams, types)
	}
	started := float64(run.Started.UnixNano()) / 1e9
	if e := got.Experiment; e.Name != "run-1" || got.Group != "run-1" || e.Created != started || got.Start != started || fmt.Sprint(e.Metrics) != "[train/loss eval/loss]" {
		t.Errorf("%+v of group %s, started at %v, not %v", e, got.Group, got.Start, started)
	}
	if got.Status != 1 || got.End < started || got.End > started+60 { // STATUS_SUCCESS
		t.Errorf("status %v at %v", got.Status, got.End)
	}
}
