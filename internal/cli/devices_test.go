package cli_test

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"trireme/internal/pjrt/pjrttest"
)

// TestDevices runs testdata/devices/*.txtar, which train on XLA's CPU plug-in, $PJRT_CPU.
func TestDevices(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	plugin := pjrttest.CPU(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/devices",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PJRT_CPU", plugin)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "near": near},
	})
}

// near FILE FILE compares the losses and gradient norms of the steps in two records of runs: a difference of
// 1 in 10,000 is rounding.
func near(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: near FILE FILE")
	}
	type figures struct {
		Step     int
		Loss     *float64
		GradNorm float64 `json:"grad_norm"`
	}
	read := func(name string) map[int]figures {
		steps := map[int]figures{}
		for line := range strings.Lines(ts.ReadFile(name)) {
			var r figures
			ts.Check(json.Unmarshal([]byte(line), &r))
			if r.Loss != nil {
				steps[r.Step] = r
			}
		}
		return steps
	}
	a, b := read(args[0]), read(args[1])
	if len(a) == 0 || len(a) != len(b) {
		ts.Fatalf("%d steps and %d", len(a), len(b))
	}
	apart := func(x, y float64) bool { return !(math.Abs(x-y) <= 1e-4*math.Abs(x)) }
	for step, x := range a {
		if y, ok := b[step]; !ok || apart(*x.Loss, *y.Loss) || apart(x.GradNorm, y.GradNorm) {
			ts.Fatalf("step %d: loss %v and %v, gradient norm %v and %v", step, *x.Loss, *y.Loss, x.GradNorm, y.GradNorm)
		}
	}
}
