package data

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// batchBytes is how much of a source is encoded as one piece of work.
const batchBytes = 128 << 10

// aheadBytes is how much of a source is in memory at one time, unless a single row is larger:
// the rows of a few batches, unless they are large.
const aheadBytes = 32 << 20

// batch is some rows of a source, and then what was made of them. Batches go around: from
// the reader to a worker, to the writer, and back.
type batch struct {
	entries []entry
	text    []byte // of the entries' lines
	bytes   int
	err     error // after these rows
	large   bool  // some of docs has slices of its own

	docs    []document
	ids     []int32
	labels  []int32
	hidden  []bool
	skipped int64
	done    chan struct{} // a value when it is encoded
}

// reset empties a batch. What a very long row needed is given back.
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

// take keeps an entry.
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

// size is about how many bytes of text an entry has.
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

// encode makes documents of the entries. The first mistake ends it.
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
		if len(ex.IDs) > batchBytes { // handed over, not copied
			d.ids, d.labels, d.hidden = ex.IDs, ex.Labels, ex.Hidden
			b.docs = append(b.docs, d)
			*ex = example{}
			b.large = true
			continue
		}
		b.ids, d.ids = keep(b.ids, ex.IDs)
		b.labels, d.labels = keep(b.labels, ex.Labels)
		b.hidden, d.hidden = keep(b.hidden, ex.Hidden)
		b.docs = append(b.docs, d)
	}
}

// keep appends a copy of part to all.
func keep[T any](all, part []T) (grown, copied []T) {
	at := len(all)
	grown = append(all, part...)
	return grown, grown[at:]
}

// check catches what would make another example of the ones that follow.
func (ex *example) check() error {
	n := len(ex.IDs)
	if l, h := len(ex.Labels), len(ex.Hidden); l != 0 && l != n || h != 0 && h != n {
		return fmt.Errorf("%d tokens with %d labels and a mask of %d", n, l, h)
	}
	return nil
}

// encode hands over what enc makes of the records, in their order whatever the number of
// threads, and counts the records that gave nothing. Of several mistakes the first in the
// files is returned. s.report, where there is one, is called as the reading goes on.
func (s *source) encode(ctx context.Context, enc encoder, add func(*document) error) (skipped int64, err error) {
	s.read.Store(0)
	workers := runtime.GOMAXPROCS(0)
	n := 3*workers + 2
	free, work, order := make(chan *batch, n), make(chan *batch, n), make(chan *batch, n)
	for range n {
		free <- &batch{done: make(chan struct{}, 1)}
	}
	ahead := make(chan struct{}, aheadBytes>>20) // a value for each MiB of rows in memory
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

// mebibytes is how much of aheadBytes a batch takes.
func (b *batch) mebibytes() int { return min(b.bytes, aheadBytes) >> 20 }

// batches reads the source, and puts a value into ahead for each mebibyte of a batch that it
// sends. An error of reading comes after the rows before it. It ends with the context.
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

// Progress is how far the reading of files is.
type Progress struct {
	Path        string // as the configuration names them
	Done, Total int64  // bytes of the files
}

// tell reports progress.
func (s *source) reportProgress() {
	if s.report != nil {
		s.report(Progress{s.path, min(s.read.Load(), s.total), s.total})
	}
}
