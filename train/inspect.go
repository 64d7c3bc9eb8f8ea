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
	"trireme/internal/objectstore"
	"trireme/model"
)

// Summary describes a run before it starts.
type Summary struct {
	Parameters    int64
	Trainable     int64 // parameters that are not frozen
	Ranks         int
	Local         int // ranks of one machine; 0 is all
	Strategy      string
	Steps         int // computed from epochs if max_steps is 0
	StepsPerEpoch int64
	RowsPerStep   int       // over all ranks
	Micro         data.Info // fields of micro-batches
	PrefetchBytes int64     // of a rank's prefetched batches
	WarmupSteps   int
	LearningRates []float64
	DataSummary
}

// DataSummary describes the rows of a run. Rows are sampled evenly for the fields that need their
// contents.
type DataSummary struct {
	SequenceLength     int
	Rows, EvalRows     int
	Tokens             int64          // of Rows
	Format             string         // as data.format names it
	Splits             string         // detected from file names: see data.Sets
	Truncated, Dropped int            // rows cut to the sequence length, rows dropped: see data.Info
	SampledRows        int            // rows that were read
	LabelTokens        int64          // of sampled rows; rows with a label if RowLabels
	Unlabeled          int            // sampled rows without labels
	RowLabels          bool           // labels are of rows, not of tokens
	Notes              []error        // warnings, one line each
	end                *data.EndToken // nil if a row has it as a label, or it is unknown
}

// TokensPerRow returns the mean row length.
func (c *DataSummary) TokensPerRow() float64 { return float64(c.Tokens) / float64(max(1, c.Rows)) }

// Inspect checks everything that a run opens, with the model on the meta backend, to find errors before
// ranks start. Errors of the user's input are *InputError. local is the number of ranks of each
// machine; 0 is all. report receives tokenization progress; nil ignores it.
func Inspect(ctx context.Context, cfg Config, config *model.Config, ranks, local int, report func(data.Progress)) (_ *Summary, err error) {
	s := &Summary{Ranks: ranks, Local: local, Strategy: cfg.Parallel.Strategy}
	accum, err := cfg.Training.Accumulation(ranks)
	if err != nil {
		return nil, input(err)
	}
	if _, _, err := cfg.Parallel.Resolve(ranks, local); err != nil {
		return nil, input(err)
	}
	if err := cfg.Checkpoint.Check(cfg.OutputDir, ranks); err != nil {
		return nil, input(err)
	}
	if dir := cfg.Resume; dir != "auto" && dir != "none" && dir != "" && !objectstore.IsURL(dir) {
		if _, err := os.Stat(dir); err != nil {
			return nil, input(fault.Try(fmt.Errorf("train: resume: %w", err), "%s, or none", fault.Set("resume", "auto")))
		}
	}
	info, err := ModelInfo(config)
	if err != nil {
		return nil, err
	}
	sets, loader, err := cfg.openData(ctx, config, info, accum, 0, ranks, nil, nil, report)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, loader.Close(), sets.Close()) }()
	sets.Fingerprint(ctx) // so that ranks find it in the cache
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

// inspectModel makes the model on the meta backend and compares it with its weight files.
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

// sampleTime limits how long rows are sampled, once labels were found.
const sampleTime = 500 * time.Millisecond

// summarize describes the rows of sets as loaded with l. If no row has a label, it also returns an error.
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
		c.Notes = append(c.Notes, fault.Try(fmt.Errorf("no label of %d rows is the end token %s: the model is not trained to generate it", c.SampledRows, c.end.Name), "rows or a chat template that end with it, or another eos_token in tokenizer_config.json"))
	}
	return c, err
}

// sample counts labels in a sample of rows loaded with l.
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
		return input(fault.Try(fmt.Errorf("train: no label tokens in %d rows: all labels are masked, or rows have one token", s.Rows), "another data.path, or labels that are not all %d", data.Ignored))
	}
	return nil
}

// permuted is a dataset in an order that samples it evenly: i*stride mod n.
type permuted struct {
	data.Dataset
	n, stride int
}

func (v *permuted) at(i int) int { return int(int64(i) * int64(v.stride) % int64(v.n)) }

func (v *permuted) Row(i int, r *data.Row) error { return v.Dataset.Row(v.at(i), r) }
func (v *permuted) Tokens(i int) int             { return v.Dataset.Tokens(v.at(i)) }
func (v *permuted) Where(i int) string           { return v.Dataset.Where(v.at(i)) }

// stride returns a number near 0.618 n that is coprime with n.
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
