package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"trireme/data"
	"trireme/fault"
	"trireme/internal/foreign"
	"trireme/model"
	"trireme/monitor"
	"trireme/planner"
	"trireme/tensor"
	"trireme/train"
)

func (j *job) printStart(w io.Writer) error {
	s, t := j.summary, j.cfg.Training
	var rates []string
	for _, lr := range s.LearningRates {
		rates = append(rates, strconv.FormatFloat(lr, 'g', 4, 64))
	}
	more := ""
	if s.Steps > len(rates) {
		more = ", ..."
	}
	warmup := ""
	if t.WarmupRatio > 0 || s.WarmupSteps > 0 {
		warmup = "; warmup: " + number(int64(s.WarmupSteps), "step")
	}
	strategy := s.Strategy
	if dt, _ := tensor.ParseDType(j.cfg.Precision.ParamDType); dt != tensor.F32 {
		strategy += fmt.Sprintf(", computing in %v", dt)
	}
	trained := ""
	if s.Trainable != s.Parameters {
		trained = fmt.Sprintf(", %s trained, %s frozen", number(s.Trainable, ""), number(s.Parameters-s.Trainable, ""))
	}
	batch := describeBatch(s.RowsPerStep, t.MicroBatchSize, s.Ranks)
	if t.MicroBatchTokens > 0 {
		batch = fmt.Sprintf("%d in micro-batches of up to %d tokens", s.RowsPerStep, t.MicroBatchTokens)
	}
	fmt.Fprintf(w, "model: %s%s; ranks: %d, %s; rows per step: %s\n", number(s.Parameters, "parameter"), trained, s.Ranks, strategy, batch)
	if err := j.printData(w, &s.DataSummary); err != nil {
		return err
	}
	fmt.Fprintf(w, "steps: %d, %.3g epochs%s; learning rates: %s%s\n",
		s.Steps, float64(s.Steps)/float64(s.StepsPerEpoch), warmup, strings.Join(rates, ", "), more)
	return printNotes(w, j.noteTexts(s.Notes))
}

// noteTexts formats notes, with settings as flags, or as keys of the file if no flag may contradict them.
func (j *job) noteTexts(notes []error) (texts []string) {
	for _, n := range notes {
		texts = append(texts, fault.Text(n, func(s fault.Setting) string {
			if j.file != nil {
				if i := slices.IndexFunc(j.file.Fixed, func(f foreign.Fixed) bool { return f.Path == s.Key }); i >= 0 {
					return fmt.Sprintf("%s %s in %s", j.file.Fixed[i].Key, s.Value, j.file.Fixed[i].Where)
				}
			}
			return asFlag(s)
		}))
	}
	return texts
}

func printNotes(w io.Writer, notes []string) error {
	for _, n := range notes {
		if _, err := fmt.Fprintf(w, "note: %s\n", n); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) printData(w io.Writer, s *train.DataSummary) error {
	evaluation := ""
	if s.EvalRows > 0 {
		evaluation = "; evaluation set: " + number(int64(s.EvalRows), "row")
	}
	if s.Splits != "" {
		evaluation += " (" + s.Splits + ")"
	}
	labels, examined := float64(s.LabelTokens), ""
	if s.SampledRows < s.Rows { // an estimate from a sample of rows
		labels *= float64(s.Rows) / float64(s.SampledRows)
		examined = "about "
	}
	loss := fmt.Sprintf("%s%s (%.1f%%)", examined, monitor.Thousands(labels), 100*labels/float64(max(1, s.Tokens)))
	if s.RowLabels {
		loss = fmt.Sprintf("the labels of %s%s", examined, number(int64(labels), "row"))
	}
	_, err := fmt.Fprintf(w, "data: %s (%s): %s of up to %d tokens%s\ndata: %s, %.4g per row; loss on %s\n",
		j.dataName(), s.Format, number(int64(s.Rows), "row"), s.SequenceLength, evaluation, number(s.Tokens, "token"), s.TokensPerRow(), loss)
	if s.Unlabeled+s.Dropped+s.Truncated == 0 || err != nil {
		return err
	}
	if examined != "" {
		examined = fmt.Sprintf(" (of %s examined)", number(int64(s.SampledRows), ""))
	}
	_, err = fmt.Fprintf(w, "data: rows without labels: %s kept%s, %s dropped; %s truncated\n",
		number(int64(s.Unlabeled), ""), examined, number(int64(s.Dropped), ""), number(int64(s.Truncated), "row"))
	return err
}

// number formats n with thousands separators and the noun, if any, in singular or plural.
func number(n int64, noun string) string {
	text := monitor.Thousands(float64(n))
	switch {
	case noun == "":
		return text
	case n == 1:
		return text + " " + noun
	}
	return text + " " + noun + "s"
}

func (j *job) dataName() string {
	if p := j.named("data.path"); p != "" {
		return p
	}
	return "the source of Go's standard library"
}

// plan plans one rank of the job with rows of the maximum length.
func (j *job) plan(ctx context.Context) (planner.Plan, error) {
	return j.planJob(j.model, j.summary.SequenceLength, j.summary.Micro, j.summary.Ranks, j.summary.Local).Run(ctx, 0)
}

// planUsual plans rows of the mean length. It is nil if all rows have the maximum length.
func (j *job) planUsual(ctx context.Context) (*planner.Plan, error) {
	s := j.summary
	job := j.planJob(j.model, s.SequenceLength, s.Micro, s.Ranks, s.Local)
	if job.RowTokens = s.TokensPerRow(); job.RowTokens >= float64(s.SequenceLength) {
		return nil, nil
	}
	p, err := job.Run(ctx, 0)
	return &p, err
}

// planJob returns the planner's job for rows of up to positions positions.
func (j *job) planJob(config *model.Config, positions int, rows data.Info, ranks, local int) planner.Job {
	return planner.Job{Config: j.cfg, Model: config, Ranks: ranks, Local: local, Positions: positions, Rows: rows}
}

// describeBatch describes the rows of a step, which ranks compute in micro-batches of micro rows.
func describeBatch(rows, micro, ranks int) string {
	micros := rows / micro
	accumulation := (micros + ranks - 1) / ranks
	if idle := accumulation*ranks - micros; idle > 0 {
		return fmt.Sprintf("%d = micro-batch %d x %d, on %d ranks with accumulation %d; %s without work in the last round", rows, micro, micros, ranks, accumulation, number(int64(idle), "rank"))
	}
	return fmt.Sprintf("%d = micro-batch %d x accumulation %d x ranks %d", rows, micro, accumulation, ranks)
}
