package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"trireme/internal/cli"
	"trireme/internal/nvml/nvmltest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"trireme": func() { cli.LimitArenas(); os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs testdata/script/*.txtar: command lines with their output and exit codes. UPDATE=1
// rewrites the golden files in them.
func TestScripts(t *testing.T) {
	driver := "" // the directory of a stand-in for NVIDIA's driver
	if _, err := exec.LookPath("cc"); err == nil {
		driver = filepath.Dir(nvmltest.Library(t))
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HF_HOME", filepath.Join(e.Cd, "hf"))
			e.Setenv("HF_HUB_OFFLINE", "1") // until there is a hub
			e.Setenv("NVIDIA_DRIVER", driver)
			// Checkpoints of formats without a run ID, and with sharded elements.
			for _, name := range []string{"format1", "format2"} {
				path, err := filepath.Abs(filepath.Join("testdata", name))
				if err != nil {
					return err
				}
				e.Setenv(strings.ToUpper(name), path)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"figures":    figures,
			"hub":        serveHub,
			"killed":     killed,
			"object":     object,
			"objects":    serveObjects,
			"patch":      patch,
			"planned":    planned,
			"replace":    replace,
			"samelosses": sameLosses,
			"signaled":   signaled,
			"smalldisk":  smallDisk,
			"truncate":   truncate,
			"waitfor":    waitFor,
			"within":     within,
		},
		Condition: condition,
	})
}

// exits CODE ARGS... runs trireme and compares its exit code; stdout and stderr can be checked
// afterwards.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	code := "0"
	if err := ts.Exec("trireme", args[1:]...); err != nil {
		code = exitCode(err)
	}
	if code != args[0] {
		ts.Fatalf("trireme %q exits with %s, not %s", args[1:], code, args[0])
	}
}

// object SCHEMA ARGS... runs trireme, whose standard output must be one JSON object of a schema.
func object(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: object SCHEMA ARGS...")
	}
	exits(ts, false, append([]string{"0"}, args[1:]...))
	var got struct{ Schema string }
	text := ts.ReadFile("stdout")
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Schema != args[0] || strings.Count(text, "\n") != 1 {
		ts.Fatalf("standard output is not one object of %s in a line (%v):\n%s", args[0], err, text)
	}
}

func exitCode(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err.Error()
	}
	return strconv.Itoa(exit.ExitCode())
}

// figures FILE FILE... compares the values computed in records of runs: the last record of each step,
// except for fields that depend on the machine and the time.
func figures(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: figures FILE FILE...")
	}
	read := func(name string) string {
		text, err := stepFigures(ts.MkAbs(name))
		ts.Check(err)
		return text
	}
	first := read(args[0])
	for _, name := range args[1:] {
		if got := read(name); got != first {
			ts.Fatalf("%s has\n%s%s has\n%s", args[0], first, name, got)
		}
	}
}

// samelosses FILE FILE compares the losses of two reports of eval, digit by digit.
func sameLosses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: samelosses FILE FILE")
	}
	var losses [2]json.RawMessage
	for i, name := range args {
		var r struct {
			Loss json.RawMessage `json:"eval_loss"`
		}
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(name)), &r))
		losses[i] = r.Loss
	}
	if len(losses[0]) == 0 || string(losses[0]) != string(losses[1]) {
		ts.Fatalf("%s has the loss %s, %s has %s", args[0], losses[0], args[1], losses[1])
	}
}

// stepFigures returns the values computed in records of steps and evaluations, a line for each: the
// last record of a step, except for fields that depend on the machine and the time.
func stepFigures(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	steps, evaluations := map[int]string{}, map[int]string{}
	for line := range strings.Lines(string(b)) {
		var r struct {
			Step     int
			Loss     json.RawMessage
			GradNorm json.RawMessage `json:"grad_norm"`
			LR       json.RawMessage
			Tokens   json.RawMessage
			EvalLoss json.RawMessage `json:"eval_loss"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if r.Loss != nil {
			steps[r.Step] = fmt.Sprintf("step %d: loss %s grad_norm %s lr %s tokens %s\n", r.Step, r.Loss, r.GradNorm, r.LR, r.Tokens)
		}
		if r.EvalLoss != nil {
			evaluations[r.Step] = fmt.Sprintf("step %d: eval_loss %s\n", r.Step, r.EvalLoss)
		}
	}
	if len(steps) == 0 {
		return "", fmt.Errorf("%s has no step", path)
	}
	var out strings.Builder
	for _, n := range slices.Sorted(maps.Keys(steps)) {
		out.WriteString(steps[n] + evaluations[n])
	}
	return out.String(), nil
}

// truncate FILE BYTES truncates a file.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate FILE BYTES")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}
