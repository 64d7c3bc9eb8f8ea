package data

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"trireme/fault"
)

// LoaderConfig says how a dataset becomes micro-batches.
type LoaderConfig struct {
	MicroBatchSize int // rows of a micro-batch; 0 is 1
	Accumulation   int // micro-batches of a rank in a step; 0 is 1
	// MicroBatchTokens, where it is not 0, is the number of tokens of a micro-batch at most: in
	// place of the two above the GlobalBatch rows of a step are divided into as few as hold them.
	MicroBatchTokens, GlobalBatch int
	Rank, Ranks                   int // among the ranks that share the data; Ranks 0 is 1
	// RowCost is what a row of some tokens costs, in any unit, to divide rows evenly; nil is its
	// tokens.
	RowCost        func(tokens int) float64
	Seed           uint64
	Shuffle        bool
	DropLast       bool // see Sampler
	SequenceLength int  // tokens of a row at most; 0 is the longest row's
	Vocab          int  // ids must be below it; 0 does not check
	// Task is what is learned of a row: labels of whole rows with Classify alone, and with Masked
	// labels of their own positions, not predicted by the position before.
	Task Task
	// Masking hides tokens of rows that do not say what is learned of them; nil hides none.
	Masking  *Masking
	Prefetch int // steps kept ready beside the one being made; 0 is 2
}

func (c *LoaderConfig) fill(d Dataset) error {
	c.MicroBatchSize = max(c.MicroBatchSize, 1)
	c.Accumulation = max(c.Accumulation, 1)
	c.Ranks = max(c.Ranks, 1)
	if c.Prefetch == 0 {
		c.Prefetch = 2
	}
	if d.Info().Labels {
		c.Masking = nil
	}
	longest := d.Info().Length
	if c.SequenceLength == 0 {
		c.SequenceLength = longest
	}
	if c.RowCost == nil {
		c.RowCost = func(tokens int) float64 { return float64(tokens) }
	}
	switch {
	case c.Rank < 0 || c.Rank >= c.Ranks:
		return fmt.Errorf("data: rank %d of %d", c.Rank, c.Ranks)
	case longest > c.SequenceLength:
		return fmt.Errorf("data: rows of %d tokens are longer than sequence_length %d", longest, c.SequenceLength)
	case c.SequenceLength < 2 && c.Task == CausalLM:
		return fault.Try(errors.New("data: rows of one token leave nothing to predict"), "longer rows, or data.sequence_length above 1")
	case c.MicroBatchTokens > 0 && c.MicroBatchTokens < longest:
		err := fmt.Errorf("data: micro_batch_tokens %d is less than the longest row, which has %d tokens", c.MicroBatchTokens, longest)
		return fault.Try(err, "%s", fault.Set("training.micro_batch_tokens", longest))
	case c.Vocab > 0 && int(d.Info().MaxID) >= c.Vocab:
		return fmt.Errorf("data: %s: %w", holder(d, d.Info().MaxID), vocabError(d.Info().MaxID, c.Vocab))
	}
	return nil
}

// info is what micro-batches of a dataset have.
func (c *LoaderConfig) info(d Dataset) Info {
	info := d.Info()
	info.Classes = info.Classes && c.Task == SequenceClassification
	return info
}

// holder names the row that holds a token id.
func holder(d Dataset, id int32) string {
	var r Row
	for i := range d.Len() {
		if d.Row(i, &r) != nil {
			break
		}
		for t := range r.InputIDs {
			if r.InputIDs[t] == id || r.Labels[t] == id {
				return d.Where(i)
			}
		}
	}
	return d.Where(0)
}

// Batch is one step's work of one rank. It is valid until the Loader's next Next.
type Batch struct {
	Micro      []MicroBatch // by accumulation index
	LabelCount int64        // of all of them
	Tokens     int64        // of all their rows
	buffers    []MicroBatch // Micro and those that other steps need besides
	at         State        // after this batch
}

// Documents calls f with the length of each document: a row, or where rows hold several that do not
// see one another, one of them.
func (b *Batch) Documents(f func(tokens int)) {
	for i := range b.Micro {
		b.Micro[i].documents(f)
	}
}

// Loader gives the micro-batches of one rank, step after step and epoch after epoch,
// without end. The global batch is MicroBatchSize * Accumulation * Ranks rows, or GlobalBatch, which
// a divider divides into micro-batches; m = a*Ranks + Rank is this rank's of accumulation index a.
// Batches are made ahead in one goroutine. Methods are called from one goroutine.
type Loader struct {
	set   Dataset
	cfg   LoaderConfig
	bal   *balancer
	seq   *Sampler // of the goroutine while it runs
	at    State    // after the batch that Next gave last
	inUse *Batch

	ready  chan *Batch
	free   chan *Batch
	cancel context.CancelFunc
	done   sync.WaitGroup
	err    error // why the goroutine ended, once ready is closed
}

// NewLoader begins at the first step. Close must be called; it does not close the dataset.
func NewLoader(d Dataset, cfg LoaderConfig) (*Loader, error) {
	if d.Len() == 0 {
		return nil, fault.Try(errors.New("data: the dataset has no rows"), "another data.path")
	}
	if err := cfg.fill(d); err != nil {
		return nil, err
	}
	bal := newBalancer(&cfg)
	global := len(bal.rows)
	seq, err := NewSampler(d.Len(), global, cfg.Seed, cfg.Shuffle, cfg.DropLast)
	if err != nil {
		if cfg.MicroBatchTokens > 0 {
			return nil, fault.Try(err, "%s", fault.Set("training.global_batch_size", d.Len()))
		}
		return nil, cfg.smaller(fmt.Errorf("%w (micro_batch_size %d x accumulation %d x ranks %d)", err, cfg.MicroBatchSize, cfg.Accumulation, cfg.Ranks), d.Len())
	}
	return &Loader{set: d, cfg: cfg, bal: bal, seq: seq, at: seq.State()}, nil
}

// smaller adds to err what makes a global batch that n rows fill.
func (c LoaderConfig) smaller(err error, n int) error {
	const packing = ", or %s, where a row is one of few long texts"
	packed, one := fault.Set("data.packing", true), fault.Set("training.gradient_accumulation_steps", 1)
	switch per := c.MicroBatchSize * c.Ranks; {
	case n >= c.MicroBatchSize*c.Accumulation*c.Ranks:
		return err
	case n >= per:
		return fault.Try(err, "%s"+packing, fault.Set("training.gradient_accumulation_steps", n/per), packed)
	case n >= c.Ranks:
		return fault.Try(err, "%s %s"+packing, fault.Set("training.micro_batch_size", n/c.Ranks), one, packed)
	default:
		return fault.Try(err, "%s"+packing, fault.Set(fault.Ranks, n), packed)
	}
}

// SequenceLength is the number of tokens of a row at most.
func (l *Loader) SequenceLength() int { return l.cfg.SequenceLength }

// Info is what micro-batches have.
func (l *Loader) Info() Info { return l.cfg.info(l.set) }

// PrefetchBytes is what the batches take at most that are made ahead.
func (l *Loader) PrefetchBytes() int64 {
	m := newMicroBatch(1, 1, l.cfg.info(l.set))
	of := int64(2) // numbers of a token, of which one has twice the bytes
	for _, s := range [][]int32{m.InputIDs, m.Targets, m.Positions, m.Docs, m.Types} {
		if s != nil {
			of++
		}
	}
	positions := int64(l.cfg.MicroBatchSize * l.cfg.Accumulation * l.cfg.SequenceLength)
	if l.cfg.MicroBatchTokens > 0 {
		positions = int64((len(l.bal.rows) + l.cfg.Ranks - 1) / l.cfg.Ranks * l.cfg.SequenceLength)
	}
	return int64(l.batches()) * 4 * of * positions
}

// StepsPerEpoch is the number of steps in which every row is used once.
func (l *Loader) StepsPerEpoch() int64 { return l.seq.StepsPerEpoch() }

// State is the position after the batch that Next gave last: what a checkpoint stores.
func (l *Loader) State() State { return l.at }

// Restore goes to a stored position, which may come from a world of another size.
func (l *Loader) Restore(at State) error {
	l.stop()
	if err := l.seq.Restore(at); err != nil {
		return err
	}
	l.at = l.seq.State()
	return nil
}

// Next waits for the next step's micro-batches. After an error of the dataset every later
// call gives it again; after the context's end the call may be repeated.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if l.ready == nil {
		l.start()
	}
	if l.inUse != nil {
		l.free <- l.inUse
		l.inUse = nil
	}
	select {
	case b, ok := <-l.ready:
		if !ok {
			return nil, l.err
		}
		l.inUse, l.at = b, b.at
		return b, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("data: next batch: %w", context.Cause(ctx))
	}
}

// Close ends the goroutine and waits for it.
func (l *Loader) Close() error {
	l.stop()
	return nil
}

func (l *Loader) start() {
	depth := max(l.cfg.Prefetch, 0)
	l.ready = make(chan *Batch, depth)
	l.free = make(chan *Batch, l.batches())
	for range l.batches() {
		l.free <- &Batch{}
	}
	l.err = nil
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.done.Go(func() {
		defer close(l.ready)
		l.err = l.produce(ctx)
	})
}

// batches is how many there are: those that are ready, the one in use and the one being made.
func (l *Loader) batches() int { return max(l.cfg.Prefetch, 0) + 2 }

// stop ends the goroutine and forgets what it made ahead.
func (l *Loader) stop() {
	if l.ready == nil {
		return
	}
	l.cancel()
	l.done.Wait()
	l.ready, l.free, l.inUse, l.cancel = nil, nil, nil, nil
	l.seq.at = l.at
}

// produce makes batches until the context ends or a row cannot be read.
func (l *Loader) produce(ctx context.Context) error {
	var row Row
	for {
		var b *Batch
		select {
		case b = <-l.free:
		case <-ctx.Done():
			return nil
		}
		if err := l.fillBatch(b, &row); err != nil {
			return err
		}
		select {
		case l.ready <- b:
		case <-ctx.Done():
			return nil
		}
	}
}

// newMicroBatch has no rows yet, and room for as many tokens as it may have.
func (c *LoaderConfig) newMicroBatch(d Dataset) MicroBatch {
	rows, tokens := c.MicroBatchSize, c.MicroBatchSize*c.SequenceLength
	if c.MicroBatchTokens > 0 {
		rows, tokens = c.GlobalBatch, min(c.MicroBatchTokens, c.GlobalBatch*c.SequenceLength)
	}
	m := newMicroBatch(c.SequenceLength, tokens, c.info(d))
	m.MaxRows, m.MaxTokens = rows, tokens
	return m
}

// fillBatch makes this rank's part of the next global batch and advances.
func (l *Loader) fillBatch(b *Batch, row *Row) error {
	b.LabelCount, b.Tokens = 0, 0
	first := l.seq.State().Samples
	micros := l.bal.balance(func(i int) int { return l.set.Tokens(l.seq.Index(i)) })
	want := (len(micros) + l.cfg.Ranks - 1) / l.cfg.Ranks
	for len(b.buffers) < want {
		b.buffers = append(b.buffers, l.cfg.newMicroBatch(l.set))
	}
	b.Micro = b.buffers[:want]
	for a := range b.Micro {
		mb := &b.Micro[a]
		mb.reset()
		if m := a*l.cfg.Ranks + l.cfg.Rank; m < len(micros) {
			for _, i := range micros[m] {
				if err := mb.add(l.set, l.seq.Index(int(i)), first+int64(i), row, &l.cfg); err != nil {
					return err
				}
			}
			b.Tokens += int64(len(mb.InputIDs))
		} else {
			mb.blank(&l.cfg)
		}
		b.LabelCount += mb.LabelCount
	}
	l.seq.Advance()
	b.at = l.seq.State()
	return nil
}
