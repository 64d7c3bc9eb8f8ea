package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"trireme/tokenizer"
)

const tokenizeSeconds = 1 // of passes over a corpus

// tokenize compares the speed of tokenizers, one thread each, and their ids.
func (h *harness) tokenize(ctx context.Context) error {
	peer, err := newPeer(ctx, huggingFace, h.python, h.dir, h.progress)
	if err != nil {
		return err
	}
	v, err := decode(peer.tokenizers(ctx, "version"), peer.python)
	if err != nil {
		return fmt.Errorf("%w. try: -python FILE that imports tokenizers, or no -python to install it", err)
	}
	corpora, err := h.corpora(ctx)
	if err != nil {
		return err
	}
	names, err := h.tokenizerNames(ctx, peer, corpora)
	if err != nil {
		return err
	}
	t := &table{Title: "Tokenizing, 1 thread, MB per second of processor time", OurName: "trireme", TheirName: fmt.Sprint("tokenizers ", v["tokenizers"]), Comparison: "tokenize"}
	return h.table(t, func(t *table) error {
		for _, name := range names {
			for _, c := range corpora {
				if err := h.encode(ctx, t, peer, name, c); err != nil {
					return fmt.Errorf("%s, %s: %w", name, c.name, err)
				}
			}
		}
		return nil
	})
}

func (p *peer) tokenizersFile(name string) string {
	return filepath.Join(p.dir, "tokenizers", name, "tokenizer.json")
}

// tokenizerNames writes the values of -tokenizers as files of both programs, or else trains tokenizers, and returns their names.
func (h *harness) tokenizerNames(ctx context.Context, p *peer, corpora []*corpus) ([]string, error) {
	if h.tokenizers == nil {
		fmt.Fprintln(h.progress, "training tokenizers")
		args := []string{"train", "--output", filepath.Join(p.dir, "tokenizers"), "--texts"}
		for _, c := range corpora {
			args = append(args, c.file)
		}
		o, err := decode(p.tokenizers(ctx, args...), "tokenizers train")
		if err != nil {
			return nil, err
		}
		list, _ := o["tokenizers"].([]any)
		var names []string
		for _, name := range list {
			names = append(names, fmt.Sprint(name))
		}
		return names, nil
	}
	var names []string
	for i, path := range h.tokenizers {
		t, err := tokenizer.Load(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			name = filepath.Base(filepath.Dir(path))
		}
		if slices.Contains(names, name) {
			name += "-" + strconv.Itoa(i+1)
		}
		if err := t.Save(filepath.Dir(p.tokenizersFile(name))); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// encode adds the rows of a tokenizer and a corpus.
func (h *harness) encode(ctx context.Context, t *table, p *peer, name string, c *corpus) error {
	file, ids := p.tokenizersFile(name), filepath.Join(h.dir, "ids")
	var tokens int
	ours := func(context.Context) (object, error) { return encodeTexts(file, c) }
	theirs := func(ctx context.Context) (object, error) {
		o, err := decode(p.tokenizers(ctx, "encode", "--tokenizer", file, "--texts", c.file, "--seconds", strconv.Itoa(tokenizeSeconds), "--ids", ids), "tokenizers encode")
		if err != nil {
			return nil, err
		}
		tokens, err = compareIDs(file, c, ids)
		return o, err
	}
	figure := name + ", " + c.name
	pairs, err := h.alternate(ctx, t.Title+": "+figure, ours, theirs)
	if err != nil {
		return err
	}
	first, err := t.row(figure+", first pass", pairs, "first_mb_per_s")
	if err != nil {
		return err
	}
	later, err := t.row(figure, pairs, "mb_per_s")
	if err != nil {
		return err
	}
	t.Notes = append(t.Notes, fmt.Sprintf("%s: %d texts, %.1f MB, %d tokens, the same ids.", figure, len(c.texts), float64(c.bytes)/1e6, tokens))
	return h.add(t, first, later)
}

// encodeTexts measures a tokenizer without words in its cache, in a first pass over the texts and in later ones.
func encodeTexts(file string, c *corpus) (object, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	tok, err := tokenizer.Load(file)
	if err != nil {
		return nil, err
	}
	runtime.GC() // what the last run left is not this one's
	var ids []int32
	var speeds []float64
	for ends := time.Now().Add(tokenizeSeconds * time.Second); len(speeds) < 3 || time.Now().Before(ends); {
		began := processorTime()
		for _, text := range c.texts {
			ids = tok.Append(ids[:0], text, tokenizer.Options{})
		}
		speeds = append(speeds, float64(c.bytes)/1e6/(processorTime()-began).Seconds())
	}
	return object{"first_mb_per_s": speeds[0], "mb_per_s": median(speeds[1:])}, tok.Err()
}

// processorTime returns the time of all threads of this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only for invalid arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// compareIDs returns the number of tokens, or an error that names the first text whose ids differ from the peer's.
func compareIDs(tokenizerFile string, c *corpus, idsFile string) (tokens int, err error) {
	tok, err := tokenizer.Load(tokenizerFile)
	if err != nil {
		return 0, err
	}
	b, err := os.ReadFile(idsFile)
	if err != nil {
		return 0, err
	}
	var ids []int32
	for i, text := range c.texts {
		ids = tok.Append(ids[:0], text, tokenizer.Options{})
		want := binary.NativeEndian.AppendUint32(nil, uint32(len(ids)))
		for _, id := range ids {
			want = binary.NativeEndian.AppendUint32(want, uint32(id))
		}
		if len(b) < len(want) || string(b[:len(want)]) != string(want) {
			return 0, fmt.Errorf("text %d of %d has other ids than of tokenizers: %.60q", i+1, len(c.texts), text)
		}
		b = b[len(want):]
		tokens += len(ids)
	}
	return tokens, tok.Err()
}
