package data

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"trireme/fault"
	"trireme/flight"
	"trireme/trace"
)

// LoaderConfig configures how a dataset becomes micro-batches.
type LoaderConfig struct {
	MicroBatchSize int // rows per micro-batch; 0 is 1
	Accumulation   int // micro-batches per rank and step; 0 is 1
	// GlobalBatch is the number of rows in a step, a multiple of MicroBatchSize; 0 is MicroBatchSize *
	// Accumulation * Ranks. If its micro-batches do not divide evenly, some ranks get an empty one last.
	GlobalBatch int
	// MicroBatchTokens, if not 0, is the maximum number of tokens of a micro-batch: the GlobalBatch
	// rows of a step are balanced over as few micro-batches as hold them, and MicroBatchSize and
	// Accumulation are ignored.
	MicroBatchTokens int
	Rank, Ranks      int // data-parallel rank and size; Ranks 0 is 1
	// RowCost is the cost of a row of n tokens, in any unit, for balancing; nil is n.
	RowCost        func(n int) float64
	Seed           uint64
	Shuffle        bool
	DropLast       bool // see Sampler
	SequenceLength int  // maximum tokens of a row; 0 is the longest row
	Vocab          int  // ids must be below it; 0: not checked
	// Task is the training objective. Class labels are used with SequenceClassification only; with
	// MaskedLM the target of a position is its own label, not the next one.
	Task Task
	// Masking masks tokens of rows without labels of their own; nil masks none.
	Masking  *Masking
	Prefetch int // steps prefetched beside the one being built; 0 is 2
	// Recorder records which row Next waits for; nil records nothing.
	Recorder *flight.Recorder
	// Trace records when batches are built; nil records nothing.
	Trace *trace.Recorder
}

// rows returns the number of rows in a step.
func (c *LoaderConfig) rows() int {
	if c.GlobalBatch > 0 {
		return c.GlobalBatch
	}
	return c.MicroBatchSize * c.Accumulation * c.Ranks
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
		return fmt.Errorf("data: rows of %d tokens exceed sequence_length %d", longest, c.SequenceLength)
	case c.SequenceLength < 2 && c.Task == CausalLM:
		return fault.Try(errors.New("data: rows of one token have nothing to predict"), "longer rows, or data.sequence_length above 1")
	case c.MicroBatchTokens > 0 && c.MicroBatchTokens < longest:
		err := fmt.Errorf("data: micro_batch_tokens %d is less than the longest row, %d tokens", c.MicroBatchTokens, longest)
		return fault.Try(err, "%s", fault.Set("training.micro_batch_tokens", longest))
	case c.Vocab > 0 && int(d.Info().MaxID) >= c.Vocab:
		return fmt.Errorf("data: %s: %w", holder(d, d.Info().MaxID), vocabError(d.Info().MaxID, c.Vocab))
	}
	return nil
}

// info describes the micro-batches of a dataset.
func (c *LoaderConfig) info(d Dataset) Info {
	info := d.Info()
	info.Classes = info.Classes && c.Task == SequenceClassification
	return info
}

// holder returns the origin of a row with a token id.
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

// Batch is one rank's work of a step. It is valid until the next call of Next.
type Batch struct {
	Micro      []MicroBatch // by accumulation index
	LabelCount int64        // in all of Micro
	Tokens     int64        // in all of Micro
	buffers    []MicroBatch // Micro, with capacity for other steps
	at         State        // after this batch
}

// Documents calls f with the length of each document.
func (b *Batch) Documents(f func(tokens int)) {
	for i := range b.Micro {
		b.Micro[i].documents(f)
	}
}

// Loader yields the micro-batches of one rank, step after step and epoch after epoch, without end.
// The rows of a step are balanced over micro-batches; this rank's at accumulation index a is m = a*Ranks + Rank. Batches are prefetched
// by one goroutine. Methods are for one goroutine.
type Loader struct {
	set   Dataset
	cfg   LoaderConfig
	bal   *balancer
	seq   *Sampler // owned by the goroutine while it runs
	at    State    // after the last batch of Next
	inUse *Batch

	reading atomic.Int64 // row that the goroutine reads
	ready   chan *Batch
	free    chan *Batch
	cancel  context.CancelFunc
	done    sync.WaitGroup
	err     error // of the goroutine; valid when ready is closed
}

// NewLoader returns a loader at the first step. Close does not close the dataset.
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

// smaller adds the settings of a global batch that n rows fill to err.
func (c LoaderConfig) smaller(err error, n int) error {
	const packing = ", or %s, if rows are few long texts"
	packed, one := fault.Set("data.packing", true), fault.Set("training.gradient_accumulation_steps", 1)
	switch per := c.MicroBatchSize * c.Ranks; {
	case n >= c.rows():
		return err
	case n >= per:
		return fault.Try(err, "%s"+packing, fault.Set("training.gradient_accumulation_steps", n/per), packed)
	case n >= c.Ranks:
		return fault.Try(err, "%s %s"+packing, fault.Set("training.micro_batch_size", n/c.Ranks), one, packed)
	default:
		return fault.Try(err, "%s"+packing, fault.Set(fault.Ranks, n), packed)
	}
}

// SequenceLength returns the maximum number of tokens of a row.
func (l *Loader) SequenceLength() int { return l.cfg.SequenceLength }

// Info describes the micro-batches.
func (l *Loader) Info() Info { return l.cfg.info(l.set) }

// PrefetchBytes returns the peak memory of all batches: prefetched, in use and being built.
func (l *Loader) PrefetchBytes() int64 {
	m := newMicroBatch(1, 1, l.cfg.info(l.set))
	words := int64(2) // 4-byte words per token; TokenKeys has 8 bytes
	for _, s := range [][]int32{m.InputIDs, m.Targets, m.Positions, m.Docs, m.Types} {
		if s != nil {
			words++
		}
	}
	positions := int64(l.cfg.MicroBatchSize * l.cfg.Accumulation * l.cfg.SequenceLength)
	if l.cfg.MicroBatchTokens > 0 {
		positions = int64((len(l.bal.rows) + l.cfg.Ranks - 1) / l.cfg.Ranks * l.cfg.SequenceLength)
	}
	return int64(l.batches()) * 4 * words * positions
}

// StepsPerEpoch returns the number of steps of an epoch.
func (l *Loader) StepsPerEpoch() int64 { return l.seq.StepsPerEpoch() }

// State returns the position after the last batch of Next, for a checkpoint.
func (l *Loader) State() State { return l.at }

// Restore continues at a stored position, which may come from a run with another number of ranks.
func (l *Loader) Restore(at State) error {
	l.stop()
	if err := l.seq.Restore(at); err != nil {
		return err
	}
	l.at = l.seq.State()
	return nil
}

// Next waits for the next step's micro-batches. Errors of the dataset are returned by all later
// calls too; after ctx ends, the call may be repeated.
func (l *Loader) Next(ctx context.Context) (*Batch, error) {
	if l.ready == nil {
		l.start()
	}
	if l.inUse != nil {
		l.free <- l.inUse
		l.inUse = nil
	}
	if l.cfg.Recorder != nil {
		defer l.cfg.Recorder.Leave(l.cfg.Recorder.Enter(flight.Loading, l.set.Where(int(l.reading.Load()))))
	}
	select {
	case b, ok := <-l.ready:
		return l.take(b, ok)
	default:
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case b, ok := <-l.ready:
			return l.take(b, ok)
		case <-look.C:
			if l.cfg.Recorder == nil {
				continue
			}
			l.cfg.Recorder.Detail(l.set.Where(int(l.reading.Load())))
		case <-ctx.Done():
			return nil, fmt.Errorf("data: next batch: %w", context.Cause(ctx))
		}
	}
}

// lookEvery is the time after which Next, while it waits, records the row that is being read.
const lookEvery = 500 * time.Millisecond

func (l *Loader) take(b *Batch, ok bool) (*Batch, error) {
	if !ok {
		return nil, l.err
	}
	l.inUse, l.at = b, b.at
	return b, nil
}

// Close stops the goroutine and waits for it.
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

// batches is the number of batches: the ready ones, one in use and one being built.
func (l *Loader) batches() int { return max(l.cfg.Prefetch, 0) + 2 }

// stop ends the goroutine and discards prefetched batches.
func (l *Loader) stop() {
	if l.ready == nil {
		return
	}
	l.cancel()
	l.done.Wait()
	l.ready, l.free, l.inUse, l.cancel = nil, nil, nil, nil
	l.seq.at = l.at
}

// produce builds batches until the context ends or a row cannot be read.
func (l *Loader) produce(ctx context.Context) error {
	var row Row
	for {
		var b *Batch
		select {
		case b = <-l.free:
		case <-ctx.Done():
			return nil
		}
		span := l.cfg.Trace.Begin(trace.Span{Stream: trace.Loader, Kind: trace.Data})
		if err := l.fillBatch(b, &row); err != nil {
			return err
		}
		l.cfg.Trace.End(span)
		select {
		case l.ready <- b:
		case <-ctx.Done():
			return nil
		}
	}
}

// newMicroBatch returns an empty micro-batch at full capacity.
func (c *LoaderConfig) newMicroBatch(d Dataset) MicroBatch {
	rows, tokens := c.MicroBatchSize, c.MicroBatchSize*c.SequenceLength
	if c.MicroBatchTokens > 0 {
		rows, tokens = c.GlobalBatch, min(c.MicroBatchTokens, c.GlobalBatch*c.SequenceLength)
	}
	m := newMicroBatch(c.SequenceLength, tokens, c.info(d))
	m.MaxRows, m.MaxTokens = rows, tokens
	return m
}

// fillBatch builds this rank's part of the next global batch and advances the sampler.
func (l *Loader) fillBatch(b *Batch, row *Row) error {
	b.LabelCount, b.Tokens = 0, 0
	first := l.seq.State().Samples
	micros := l.bal.balance(func(i int) int { return l.set.Tokens(l.seq.Index(i)) })
	want := (len(micros) + l.cfg.Ranks - 1) / l.cfg.Ranks
	for len(b.buffers) < want {
		b.buffers = append(b.buffers, l.cfg.newMicroBatch(l.set))
	}
	b.Micro = b.buffers[:want]
	for m := l.cfg.Rank; m < len(micros); m += l.cfg.Ranks {
		for _, i := range micros[m] {
			_ = prefetch(l.set, l.seq.Index(int(i))) // advice: reading the row reports errors
		}
	}
	for a := range b.Micro {
		mb := &b.Micro[a]
		mb.reset()
		if m := a*l.cfg.Ranks + l.cfg.Rank; m < len(micros) {
			for _, i := range micros[m] {
				l.reading.Store(int64(l.seq.Index(int(i))))
				if err := mb.add(l.set, l.seq.Index(int(i)), first+int64(i), row, &l.cfg); err != nil {
					return err
				}
			}
			b.Tokens += int64(len(mb.InputIDs))
		} else {
			mb.addEmpty(&l.cfg)
		}
		b.LabelCount += mb.LabelCount
	}
	l.seq.Advance()
	b.at = l.seq.State()
	return nil
}
