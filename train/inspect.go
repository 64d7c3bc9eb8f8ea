package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"trireme/data"
	"trireme/device"
	"trireme/fault"
	"trireme/model"
)

// Summary is what is known of a run before it begins.
type Summary struct {
	Parameters    int64
	Trainable     int64 // parameters that are not frozen
	Ranks         int
	Local         int // ranks of one machine; 0 is all
	Strategy      string
	Steps         int // with max_steps 0, as many as the epochs have
	StepsPerEpoch int64
	RowsPerStep   int       // over all ranks
	Micro         data.Info // what micro-batches have
	PrefetchBytes int64     // bytes of a rank's batches that are made ahead
	WarmupSteps   int
	LearningRates []float64
	DataSummary
}

// DataSummary is what is known of the rows of a run.
type DataSummary struct {
	SequenceLength     int
	Rows, EvalRows     int
	Tokens             int64          // of Rows
	Format             string         // of the rows, as data.format calls it
	Splits             string         // what names of files told: see data.Sets
	Truncated, Dropped int            // rows that lost their end, and rows left out: see data.Info
	SampledRows        int            // rows that were read, spread evenly over all of them
	LabelTokens        int64          // label tokens of those
	Unlabeled          int            // rows of those without labels
	RowLabels          bool           // labels are of whole rows, and Counted are those
	Notes              []error        // what is odd and not wrong, a line each
	end                *data.EndToken // nil: a row has it as a label, or nothing is known of it
}

// TokensPerRow is the mean length of the rows.
func (c *DataSummary) TokensPerRow() float64 { return float64(c.Tokens) / float64(max(1, c.Rows)) }

// Inspect opens everything that a run of ranks ranks needs, as Open does, and makes the model without
// memory, to find mistakes before any rank starts: they are an *InputError. local is the number of
// ranks of each machine; 0 is all. report gets the progress of tokenizing and may be nil.
func Inspect(ctx context.Context, cfg Config, config *model.Config, ranks, local int, report func(data.Progress)) (_ *Summary, err error) {
	s := &Summary{Ranks: ranks, Local: local, Strategy: cfg.Parallel.Strategy}
	accum, err := cfg.Training.Accumulation(ranks)
	if err != nil {
		return nil, input(err)
	}
	if _, _, err := cfg.Parallel.Resolve(ranks, local); err != nil {
		return nil, input(err)
	}
	if dir := cfg.Resume; dir != "auto" && dir != "none" && dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, input(fault.Try(fmt.Errorf("train: resume: %w", err), "%s, or none", fault.Set("resume", "auto")))
		}
	}
	info, err := ModelInfo(config)
	if err != nil {
		return nil, err
	}
	sets, loader, err := cfg.openData(ctx, config, info, accum, 0, ranks, report)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, loader.Close(), sets.Close()) }()
	sets.Fingerprint(ctx) // which the cache then has for the ranks
	if s.Parameters, s.Trainable, err = cfg.inspectModel(config, loader.SequenceLength()); err != nil {
		return nil, err
	}
	s.PrefetchBytes = loader.PrefetchBytes()
	s.Micro, s.RowsPerStep, s.StepsPerEpoch = loader.Info(), cfg.Training.rows(accum, ranks), loader.StepsPerEpoch()
	s.Steps = cfg.Training.steps(s.StepsPerEpoch)
	schedule := cfg.Training.WithTotalSteps(s.Steps)
	s.WarmupSteps = schedule.WarmupSteps
	for i := range min(5, s.Steps) {
		s.LearningRates = append(s.LearningRates, schedule.At(i))
	}
	rows := cfg.loaderConfig(info, accum, 0, ranks)
	rows.SequenceLength, rows.Masking = loader.SequenceLength(), sets.Masking
	c, err := summarize(sets, rows)
	s.DataSummary = *c
	s.Notes = append(cfg.Training.notes(schedule), s.Notes...)
	return s, err
}

// inspectModel makes the model on the backend that computes nothing, and compares it with its
// files.
func (cfg Config) inspectModel(config *model.Config, positions int) (parameters, trained int64, err error) {
	b, err := device.Open("meta", device.Options{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	m, err := config.Make(b, positions)
	if err != nil {
		return 0, 0, input(err)
	}
	if err := cfg.Prepare(m); err != nil {
		return 0, 0, input(err)
	}
	for _, p := range model.Params(m) {
		n := int64(p.Shape.Elems())
		parameters += n
		if !p.Frozen {
			trained += n
		}
	}
	if _, err := cfg.exportDType(config); err != nil {
		return 0, 0, input(err)
	}
	if cfg.Model.randomInit() {
		return parameters, trained, nil
	}
	files, err := cfg.Model.openWeights()
	if err != nil {
		return 0, 0, input(err)
	}
	w, err := cfg.Model.match(m, config, files)
	if err == nil {
		err = cfg.Model.checkTied(w)
	}
	return parameters, trained, errors.Join(input(err), files.Close())
}

// sampleTime bounds how long rows are read for a summary, if some are found that teach.
const sampleTime = 500 * time.Millisecond

// summarize tells of the rows of sets as a loader would give them. Rows that all have nothing
// to learn are an error beside it.
func summarize(sets *data.Sets, l data.LoaderConfig) (*DataSummary, error) {
	of := sets.Train.Info()
	c := &DataSummary{
		SequenceLength: l.SequenceLength, Rows: sets.Train.Len(), Tokens: of.Tokens, Format: sets.Format, Splits: sets.Splits, Truncated: of.Truncated, Dropped: of.Skipped,
		RowLabels: l.Task == data.SequenceClassification, end: sets.End,
	}
	for _, note := range sets.Notes {
		c.Notes = append(c.Notes, errors.New(note))
	}
	if sets.Eval != nil {
		c.EvalRows = sets.Eval.Len()
	}
	err := c.sample(sets.Train, l)
	if c.end != nil && err == nil {
		c.Notes = append(c.Notes, fault.Try(fmt.Errorf("the end token %s is never trained, being a label in none of %d rows: the model will not learn to stop with it", c.end.Name, c.SampledRows), "rows that end with it, or the eos_token that they end with"))
	}
	return c, err
}

// sample counts what is learned of the rows, of a part of them where they are many. l says what
// is learned.
func (s *DataSummary) sample(d data.Dataset, l data.LoaderConfig) error {
	began := time.Now()
	v := &permuted{Dataset: d, n: d.Len(), stride: stride(d.Len())}
	l.MicroBatchSize, l.MicroBatchTokens, l.Rank, l.Ranks = 1, 0, 0, 1
	for m, err := range data.EvalBatches(v, l) {
		if err != nil {
			return input(err)
		}
		s.SampledRows++
		s.LabelTokens += m.LabelCount
		if s.end != nil && slices.Contains(m.Targets, s.end.ID) {
			s.end = nil
		}
		if m.LabelCount == 0 {
			s.Unlabeled++
		}
		if s.LabelTokens > 0 && s.SampledRows%64 == 0 && time.Since(began) > sampleTime {
			break
		}
	}
	if s.LabelTokens == 0 {
		return input(fault.Try(fmt.Errorf("train: no trained tokens in any of %d rows: every label is masked, or rows have one token", s.Rows), "another data.path, or labels that are not all %d", data.Ignored))
	}
	return nil
}

// permuted is all rows of a dataset in an order that spreads evenly over it: every stride-th,
// around and around.
type permuted struct {
	data.Dataset
	n, stride int
}

func (v *permuted) at(i int) int { return int(int64(i) * int64(v.stride) % int64(v.n)) }

func (v *permuted) Row(i int, r *data.Row) error { return v.Dataset.Row(v.at(i), r) }
func (v *permuted) Tokens(i int) int             { return v.Dataset.Tokens(v.at(i)) }
func (v *permuted) Where(i int) string           { return v.Dataset.Where(v.at(i)) }

// stride is a number near 0.618 n that shares no divisor with n, so that i*stride mod n goes
// through all rows once, and each part of the way is spread evenly.
func stride(n int) int {
	for k := max(1, int(0.618*float64(n))); ; k++ {
		a, b := n, k
		for b > 0 {
			a, b = b, a%b
		}
		if a <= 1 {
			return k
		}
	}
}
