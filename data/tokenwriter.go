package data

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// document is a tokenized document for the token file. A long one comes in consecutive parts; more
// marks all but the last.
type document struct {
	ids    []int32
	labels []int32 // empty: as ids
	hidden []bool  // empty: none is
	class  int32
	at     origin
	more   bool
}

// tokenWriter writes a token file in one pass and bounded memory: later sections are spooled to
// files, and the header is written last. An optional section starts with the first document that
// needs it.
type tokenWriter struct {
	tokenInfo
	f    *os.File
	w    *bufio.Writer // of the sections, to f and sums
	sums summer
	buf  []byte
	last int64 // end of the last document in tokens

	ends, replaced, classes, origins spool
	labels, hidden                   bitSpool
}

// newTokenWriter starts a file for ids below vocab; 0 is any. close must be called.
func newTokenWriter(f *os.File, vocab int) (*tokenWriter, error) {
	w := &tokenWriter{f: f, tokenInfo: tokenInfo{width: 4, maxClass: Ignored, sections: secSums}}
	w.w = bufio.NewWriterSize(io.MultiWriter(f, &w.sums), 1<<20)
	if vocab > 0 && vocab <= 1<<16 {
		w.width = 2
	}
	for _, s := range w.spools() {
		s.dir = filepath.Dir(f.Name())
	}
	_, err := f.Write(make([]byte, tokenHeader))
	return w, err
}

func (w *tokenWriter) spools() [6]*spool {
	return [6]*spool{&w.ends, &w.labels.spool, &w.hidden.spool, &w.replaced, &w.classes, &w.origins}
}

func (w *tokenWriter) close() {
	for _, s := range w.spools() {
		s.close()
	}
}

// add writes a document or a part of one.
func (w *tokenWriter) add(d *document) error {
	for part := range slices.Chunk(d.ids, 1<<16) {
		w.buf = w.buf[:0]
		for _, id := range part {
			w.maxID = max(w.maxID, id)
			if w.width == 2 {
				w.buf = binary.LittleEndian.AppendUint16(w.buf, uint16(id))
			} else {
				w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(id))
			}
		}
		if _, err := w.w.Write(w.buf); err != nil {
			return err
		}
	}
	if err := errors.Join(w.addLabels(d), w.addHidden(d)); err != nil {
		return err
	}
	w.tokens += int64(len(d.ids))
	if d.more {
		return nil
	}
	w.longest = max(w.longest, int(w.tokens-w.last))
	w.last = w.tokens
	w.docs++
	return errors.Join(w.addClass(d.class), w.origins.uint64(uint64(d.at)), w.ends.uint64(uint64(w.tokens)))
}

func (w *tokenWriter) addLabels(d *document) error {
	if len(d.labels) == 0 {
		w.counted += int64(len(d.ids))
		if w.sections&secCounted == 0 {
			return nil
		}
		return w.labels.extend(int64(len(d.ids)), true)
	}
	if w.sections&secCounted == 0 {
		w.sections |= secCounted
		if err := w.labels.extend(w.tokens, true); err != nil {
			return err
		}
	}
	for i, label := range d.labels {
		if err := w.labels.add(label != Ignored); err != nil {
			return err
		}
		if label == Ignored {
			continue
		}
		w.counted++
		if label == d.ids[i] {
			continue
		}
		w.sections |= secReplaced
		w.nreplaced++
		w.maxID = max(w.maxID, label)
		if err := errors.Join(w.replaced.uint64(uint64(w.tokens)+uint64(i)), w.replaced.uint64(uint64(label))); err != nil {
			return err
		}
	}
	return nil
}

func (w *tokenWriter) addHidden(d *document) error {
	if len(d.hidden) == 0 {
		if w.sections&secHidden == 0 {
			return nil
		}
		return w.hidden.extend(int64(len(d.ids)), false)
	}
	if w.sections&secHidden == 0 {
		w.sections |= secHidden
		if err := w.hidden.extend(w.tokens, false); err != nil {
			return err
		}
	}
	hole := false
	for i, h := range d.hidden {
		if err := w.hidden.add(h); err != nil {
			return err
		}
		switch {
		case h && (len(d.labels) == 0 || d.labels[i] != Ignored):
			w.counted--
		case !h && hole:
			w.sections |= flagHoles
		}
		hole = hole || h
	}
	return nil
}

func (w *tokenWriter) addClass(class int32) error {
	if class == Ignored && w.sections&secClasses == 0 {
		return nil
	}
	for w.classes.size < 4*int64(w.docs-1) {
		if err := w.classes.int32(Ignored); err != nil {
			return err
		}
	}
	w.sections |= secClasses
	w.maxClass = max(w.maxClass, class)
	return w.classes.int32(class)
}

// finish writes the other sections and the header.
func (w *tokenWriter) finish(digest [32]byte) error {
	w.digest = digest
	if _, err := w.w.Write(make([]byte, -(w.tokens*int64(w.width))&7)); err != nil {
		return err
	}
	for _, err := range []error{
		w.ends.copyTo(w.w), w.labels.copyTo(w.w), w.hidden.copyTo(w.w),
		w.replaced.copyTo(w.w), w.classes.copyTo(w.w), w.origins.copyTo(w.w), w.w.Flush(),
	} {
		if err != nil {
			return err
		}
	}
	if _, err := w.f.Write(w.sums.section()); err != nil {
		return err
	}
	_, err := w.f.WriteAt(w.header(), 0)
	return err
}
