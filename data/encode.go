package data

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// batchBytes is the size of a unit of encoding work.
const batchBytes = 128 << 10

// aheadBytes is the maximum of a source in memory, unless a single row is larger.
const aheadBytes = 32 << 20

// batch is some rows of a source, and then their documents. Batches are recycled: from the reader
// to a worker, to the writer, and back.
type batch struct {
	entries []entry
	text    []byte // the entries' lines
	bytes   int
	err     error // after these rows
	large   bool  // a document has slices outside ids, labels, hidden

	docs    []document
	ids     []int32
	labels  []int32
	hidden  []bool
	skipped int64
	done    chan struct{} // receives when encoded
}

// reset empties a batch and frees the memory of a very long row.
func (b *batch) reset() {
	if b.large || cap(b.text)+4*cap(b.ids) > 64*batchBytes {
		*b = batch{done: b.done}
		return
	}
	clear(b.entries)
	*b = batch{
		entries: b.entries[:0], text: b.text[:0], docs: b.docs[:0],
		ids: b.ids[:0], labels: b.labels[:0], hidden: b.hidden[:0], done: b.done,
	}
}

// take copies an entry into the batch.
func (b *batch) take(e *entry) {
	kept := *e
	if e.line != nil {
		at := len(b.text)
		b.text = append(b.text, e.line...)
		kept.line = b.text[at:]
	}
	b.bytes += e.size()
	b.entries = append(b.entries, kept)
}

// size is the approximate number of bytes of an entry.
func (e *entry) size() int {
	n := len(e.line) + 64
	for _, v := range e.fields {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []any:
			n += 16 * len(v)
		}
	}
	return n
}

// encode turns the entries into documents, up to the first error.
func (b *batch) encode(s *source, enc encoder, j *jsonReader, ex *example) {
	for i := range b.entries {
		e := &b.entries[i]
		var r record
		err := s.fill(&r, e, j)
		ok := false
		if err == nil {
			*ex = example{IDs: ex.IDs[:0], Labels: ex.Labels[:0], Hidden: ex.Hidden[:0], Class: Ignored}
			ok, err = enc.encode(&r, ex)
		}
		if err == nil && ok {
			err = ex.check()
		}
		if err != nil {
			b.err = rowError(r.where, err)
			return
		}
		if !ok {
			b.skipped++
			continue
		}
		d := document{class: ex.Class, at: e.at, more: e.more}
		if len(ex.IDs) > batchBytes { // moved, not copied
			d.ids, d.labels, d.hidden = ex.IDs, ex.Labels, ex.Hidden
			b.docs = append(b.docs, d)
			*ex = example{}
			b.large = true
			continue
		}
		b.ids, d.ids = appendCopy(b.ids, ex.IDs)
		b.labels, d.labels = appendCopy(b.labels, ex.Labels)
		b.hidden, d.hidden = appendCopy(b.hidden, ex.Hidden)
		b.docs = append(b.docs, d)
	}
}

func appendCopy[T any](all, part []T) (grown, copied []T) {
	at := len(all)
	grown = append(all, part...)
	return grown, grown[at:]
}

// check verifies the slice lengths.
func (ex *example) check() error {
	n := len(ex.IDs)
	if l, h := len(ex.Labels), len(ex.Hidden); l != 0 && l != n || h != 0 && h != n {
		return fmt.Errorf("%d tokens have %d labels and a mask of %d", n, l, h)
	}
	return nil
}

// encode calls add with the documents that enc makes of the records, in order for any number of
// threads, and counts records without labels. Of several errors, the first in file order is
// returned. It calls s.report, if set, as it reads.
func (s *source) encode(ctx context.Context, enc encoder, add func(*document) error) (skipped int64, err error) {
	s.read.Store(0)
	workers := runtime.GOMAXPROCS(0)
	n := 3*workers + 2
	free, work, order := make(chan *batch, n), make(chan *batch, n), make(chan *batch, n)
	for range n {
		free <- &batch{done: make(chan struct{}, 1)}
	}
	ahead := make(chan struct{}, aheadBytes>>20) // one value per MiB of rows in memory
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	for range workers {
		running.Go(func() {
			j, ex := newJSONReader(s.lenient), &example{}
			for b := range work {
				b.encode(s, enc, j, ex)
				b.done <- struct{}{}
			}
		})
	}
	running.Go(func() {
		defer close(order)
		defer close(work)
		s.batches(ctx, free, ahead, func(b *batch) {
			work <- b
			order <- b
		})
	})
	for b := range order {
		<-b.done
		for i := range b.docs {
			if err == nil {
				err = add(&b.docs[i])
			}
		}
		if skipped += b.skipped; err == nil {
			err = b.err
		}
		if err != nil {
			cancel(err)
			continue
		}
		s.reportProgress()
		for range b.mebibytes() {
			<-ahead
		}
		b.reset()
		free <- b
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return skipped, err
}

// mebibytes is a batch's share of aheadBytes.
func (b *batch) mebibytes() int { return min(b.bytes, aheadBytes) >> 20 }

// batches reads the source and sends batches, with a value in ahead for each MiB. A read error
// follows the rows before it. It ends with the context.
func (s *source) batches(ctx context.Context, free <-chan *batch, ahead chan<- struct{}, send func(*batch)) {
	var b *batch
	next := func() error {
		select {
		case b = <-free:
			return nil
		case <-ctx.Done():
			return errStop
		}
	}
	if next() != nil {
		return
	}
	err := s.eachEntry(func(e *entry) error {
		b.take(e)
		if b.bytes < batchBytes {
			return nil
		}
		for range b.mebibytes() {
			select {
			case ahead <- struct{}{}:
			case <-ctx.Done():
				return errStop
			}
		}
		send(b)
		b = nil
		return next()
	})
	if errors.Is(err, errStop) {
		return
	}
	b.err = err
	send(b)
}

// Progress is the progress of reading files.
type Progress struct {
	Path        string // as in the configuration
	Done, Total int64  // bytes of the files
}

func (s *source) reportProgress() {
	if s.report != nil {
		s.report(Progress{s.path, min(s.read.Load(), s.total), s.total})
	}
}
