package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"trireme/checkpoint"
	"trireme/internal/bench"
	"trireme/internal/runlog"
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

// readRunResult reads the records of the run in a directory. Steps since began belong to this start.
func readRunResult(dir string, began time.Time) (*runResult, error) {
	run, err := runlog.Open(dir)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	r := &runResult{}
	if r.last, _, err = run.Last(); err != nil {
		return nil, err
	}
	columns, err := run.Columns(0, 0, "time", "tokens", "step_seconds", "eval_loss")
	if err != nil {
		return nil, err
	}
	steps, times, tokens, took, evals := columns[0], columns[1], columns[2], columns[3], columns[4]
	for i, step := range steps {
		switch {
		case !runlog.Missing(evals[i]):
			row, _, err := run.At(int64(step))
			if err != nil {
				return nil, err
			}
			for _, e := range row.Evaluations {
				r.evals = append(r.evals, *e)
			}
		case !(times[i] < float64(began.UnixMicro())/1e6):
			r.steps++
			r.tokens += int64(tokens[i])
			r.times = append(r.times, took[i])
			speed := 0.0
			if took[i] > 0 {
				speed = tokens[i] / took[i]
			}
			r.speeds = append(r.speeds, speed)
		}
	}
	return r, nil
}

func (r *runResult) printDone(ctx context.Context, w io.Writer, c train.Config, took time.Duration) {
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
	if c.Training.LoadBestModelAtEnd {
		where = "exported"
	} else if at, err := checkpointOf(ctx, c, best.Step); err != nil {
		where = fmt.Sprintf("its checkpoint cannot be looked up: %v", err)
	} else if at != "" {
		where = at
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

// checkpointOf returns the path of the checkpoint of a step in the first tier that has it; "" if none has.
func checkpointOf(ctx context.Context, c train.Config, step int64) (string, error) {
	path, err := checkpoint.AtStep(ctx, c.Checkpoint.Directory(c.OutputDir), int(step))
	if t, ok := c.Checkpoint.Remote(); ok && path == "" && err == nil {
		path, err = checkpoint.AtStep(ctx, t.Dir, int(step))
	}
	return path, err
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

func (r *runResult) report(ctx context.Context, to *trainReport, c train.Config) {
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
		to.Best.Checkpoint, _ = checkpointOf(ctx, c, best.Step) // of a store that does not answer, it is not known
	}
}
