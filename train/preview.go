package train

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"trireme/data"
	"trireme/fault"
	"trireme/model"
	"trireme/tokenizer"
)

// PreviewRow is a row as the model receives it.
type PreviewRow struct {
	Row         int           `json:"row"`
	Where       string        `json:"where"` // file and line
	Tokens      int           `json:"tokens"`
	LabelTokens int64         `json:"learned"`
	Label       *string       `json:"label"` // of the row, with its name; nil if it has none
	Spans       []PreviewSpan `json:"spans"`
}

// PreviewSpan is a run of tokens of one kind.
type PreviewSpan struct {
	Text          string `json:"text"` // token ids if there is no tokenizer
	Labeled       bool   `json:"learned"`
	DocumentStart bool   `json:"first"`
	Target        string `json:"target,omitempty"` // the label, if it differs from the token
}

// Preview returns n rows as the model receives them, and a summary of all rows: those from row from on in the order of
// the files, or with step > 0 those that a run whose steps all have n rows trains on in that step. If no row has a
// label, it returns both and an error.
func Preview(ctx context.Context, cfg Config, config *model.Config, from int, step int64, n int, report func(data.Progress)) (c *DataSummary, rows []PreviewRow, err error) {
	info, err := ModelInfo(config)
	if err != nil {
		return nil, nil, err
	}
	tok, err := cfg.openTokenizer()
	if err != nil {
		return nil, nil, input(err)
	}
	sets, err := data.Open(ctx, cfg.Data, modelInfo(config, info), tok, report)
	if err != nil {
		return nil, nil, input(err)
	}
	defer func() { err = errors.Join(err, sets.Close()) }()
	cfg.Data.SequenceLength = sets.SequenceLength(cfg.Data)
	l := cfg.loaderConfig(info, 1, 0, 1)
	l.MicroBatchSize, l.MicroBatchTokens, l.Masking = 1, 0, sets.Masking
	if from < 0 || from >= sets.Train.Len() {
		return nil, nil, input(fault.Try(fmt.Errorf("train: row %d does not exist: rows are 0 to %d", from, sets.Train.Len()-1), "from row 0"))
	}
	some := &rowList{Dataset: sets.Train}
	if step > 0 {
		seq, err := data.NewSampler(sets.Train.Len(), n, l.Seed, l.Shuffle, l.DropLast)
		if err != nil {
			return nil, nil, input(err)
		}
		at := seq.State()
		at.Epoch, at.Sample = (step-1)/seq.StepsPerEpoch(), (step-1)%seq.StepsPerEpoch()*int64(n)
		if err := seq.Restore(at); err != nil {
			return nil, nil, input(err)
		}
		for i := range n {
			some.rows = append(some.rows, seq.Index(i))
		}
	} else {
		for i := range min(n, sets.Train.Len()-from) {
			some.rows = append(some.rows, from+i)
		}
	}
	for m, err := range data.EvalBatches(some, l) {
		if err != nil {
			return nil, nil, input(err)
		}
		s, err := preview(some, len(rows), m, l.Task, sets.Labels, tok)
		if err != nil {
			return nil, nil, input(err)
		}
		s.Row = some.rows[s.Row]
		rows = append(rows, s)
	}
	c, err = summarize(sets, l)
	return c, rows, err
}

// rowList has some rows of a dataset.
type rowList struct {
	data.Dataset
	rows []int
}

func (w *rowList) Len() int                     { return len(w.rows) }
func (w *rowList) Row(i int, r *data.Row) error { return w.Dataset.Row(w.rows[i], r) }
func (w *rowList) Tokens(i int) int             { return w.Dataset.Tokens(w.rows[i]) }
func (w *rowList) Where(i int) string           { return w.Dataset.Where(w.rows[i]) }

// preview describes row i of a dataset and its micro-batch m; names are label names.
func preview(d data.Dataset, i int, m *data.MicroBatch, task data.Task, names []string, tok *tokenizer.Tokenizer) (PreviewRow, error) {
	var row data.Row
	if err := d.Row(i, &row); err != nil {
		return PreviewRow{}, err
	}
	s := PreviewRow{Row: i, Where: d.Where(i), Tokens: len(row.InputIDs), LabelTokens: m.LabelCount}
	if m.Classes != nil && m.Classes[0] >= 0 {
		label := strconv.Itoa(int(m.Classes[0]))
		if c := int(m.Classes[0]); c < len(names) {
			label += fmt.Sprintf(" (%s)", names[c])
		}
		s.Label = &label
	}
	w := spanWriter{tok: tok}
	for t, id := range m.InputIDs {
		target := data.Ignored
		if task == data.MaskedLM {
			target = m.Targets[t]
		} else if t > 0 {
			target = m.Targets[t-1]
		}
		w.add(id, target, t > 0 && m.Docs != nil && m.Docs[t] != m.Docs[t-1])
	}
	w.flush()
	s.Spans = w.spans
	return s, nil
}

type spanWriter struct {
	tok    *tokenizer.Tokenizer // nil writes ids
	stream *tokenizer.DecodeStream
	spans  []PreviewSpan
}

// add appends a token with its label target; first starts a document.
func (w *spanWriter) add(id, target int32, first bool) {
	if first {
		w.flush()
	}
	labeled, other := target >= 0, target >= 0 && target != id
	last := len(w.spans) - 1
	if last < 0 || first || other || w.spans[last].Target != "" || w.spans[last].Labeled != labeled {
		w.spans = append(w.spans, PreviewSpan{Labeled: labeled, DocumentStart: first})
		last++
	}
	s := &w.spans[last]
	if other {
		s.Target = w.decode(target)
	}
	if w.tok == nil {
		s.Text += fmt.Sprintf("%d ", id)
		return
	}
	if w.stream == nil {
		w.stream = w.tok.DecodeStream(false)
	}
	s.Text += w.stream.Next(id)
}

func (w *spanWriter) decode(id int32) string {
	if w.tok == nil {
		return strconv.Itoa(int(id))
	}
	return w.tok.Decode([]int32{id})
}

func (w *spanWriter) flush() {
	if w.stream != nil && len(w.spans) > 0 {
		w.spans[len(w.spans)-1].Text += w.stream.Close()
	}
}
