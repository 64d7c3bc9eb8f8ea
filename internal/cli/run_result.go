package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"trireme/internal/bench"
	"trireme/monitor"
	"trireme/train"
)

type runResult struct {
	last  *monitor.Record      // of the last step; nil: none
	evals []monitor.Evaluation // of the whole run

	// Of the steps since this program started:
	steps, tokens int64
	times         []float64 // of each, in seconds
	speeds        []float64 // tokens a second of each
}

// readRunResult reads the records of a run. Steps since began belong to this start.
func readRunResult(path string, began time.Time) (*runResult, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, in := &runResult{}, bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		rec, eval, err := monitor.Parse(bytes.TrimSpace(line))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case eval != nil:
			r.evals = append(r.evals, *eval)
		default:
			r.add(rec, began)
		}
	}
}

func (r *runResult) add(rec *monitor.Record, began time.Time) {
	r.last = rec
	if rec.Time.Before(began) {
		return
	}
	r.steps++
	r.tokens += rec.Tokens
	r.times = append(r.times, rec.StepSeconds)
	r.speeds = append(r.speeds, rec.TokensPerSecond())
}

func (r *runResult) printDone(w io.Writer, c train.Config, took time.Duration) {
	if r.steps > 0 {
		mean, deviation := meanOf(r.times)
		fmt.Fprintf(w, "done: %s in %s (%s ms per step, standard deviation %s); %s, %s tokens/s; loss %.4f in the last step\n",
			number(r.steps, "step"), shortDuration(took), monitor.Short(1000*mean), monitor.Short(1000*deviation),
			number(r.tokens, "token"), monitor.Thousands(float64(r.tokens)/float64(r.steps)/mean), r.last.Loss)
	}
	best, ok := c.Training.Best(r.evals)
	if !ok {
		return
	}
	last := r.evals[len(r.evals)-1]
	if best.Step == last.Step {
		of := ""
		if len(r.evals) > 1 {
			of = fmt.Sprintf(", the best of %d", len(r.evals))
		}
		fmt.Fprintf(w, "evaluation: %s at step %d%s\n", evalScores(best), best.Step, of)
		return
	}
	where := "its checkpoint was not kept. try: --set training.load_best_model_at_end=true"
	if dir := checkpointOf(c, best.Step); exists(dir) {
		where = dir
	}
	if c.Training.LoadBestModelAtEnd {
		where = "exported"
	}
	fmt.Fprintf(w, "evaluation: best %s at step %d (%s); last %s at step %d\n", evalScores(best), best.Step, where, evalScores(last), last.Step)
}

// meanOf returns the mean and the standard deviation of v, which is not empty.
func meanOf(v []float64) (mean, deviation float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		deviation += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(deviation)
}

func checkpointOf(c train.Config, step int64) string {
	return filepath.Join(c.Checkpoint.Directory(c.OutputDir), fmt.Sprintf("step-%d", step))
}

func evalScores(e monitor.Evaluation) string {
	switch {
	case e.MacroF1 != nil:
		return fmt.Sprintf("loss %.4f, accuracy %.4f, macro F1 %.4f", e.Loss, *e.Accuracy, *e.MacroF1)
	case e.Accuracy != nil:
		return fmt.Sprintf("loss %.4f, accuracy %.4f", e.Loss, *e.Accuracy)
	}
	return fmt.Sprintf("loss %.4f, perplexity %.2f", e.Loss, e.Perplexity())
}

// shortDuration rounds d: 37ms, 8.3s, 1m37s.
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (r *runResult) report(to *trainReport, c train.Config) {
	if r.last != nil {
		to.Steps, to.Loss = r.last.Step, finite(r.last.Loss)
	}
	if n := len(r.evals); n > 0 {
		to.EvalLoss = finite(r.evals[n-1].Loss)
	}
	to.TokensPerSecond, to.Tokens = bench.Median(r.speeds), r.tokens
	if len(r.times) > 0 {
		to.StepSeconds, to.StepSecondsStd = meanOf(r.times)
	}
	if best, ok := c.Training.Best(r.evals); ok {
		to.Best = &bestReport{Step: best.Step, Loss: finite(best.Loss), Accuracy: finiteOrNil(best.Accuracy)}
		if dir := checkpointOf(c, best.Step); exists(dir) {
			to.Best.Checkpoint = dir
		}
	}
}
