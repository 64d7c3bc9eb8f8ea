package tokenizer

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"trireme/fault"
)

// TrainOptions configures Train.
type TrainOptions struct {
	VocabSize int      // total: special tokens, 256 bytes, and merges
	Special   []string // have the first ids; nil is <|endoftext|>
	MinCount  int      // minimum count of a merged pair; 0 is 2
}

const endOfText = "<|endoftext|>"

// Train trains a byte-level BPE on texts, with GPT-2's pattern: it repeatedly merges the most
// frequent pair of adjacent tokens within a word. Ties go to the smaller ids, so the result does
// not depend on the order of texts. There are fewer than VocabSize tokens if no pairs are left. The
// first special token is BOS, EOS and PAD. Canceling ctx returns an error.
func Train(ctx context.Context, texts iter.Seq[string], o TrainOptions) (*Tokenizer, error) {
	if o.Special == nil {
		o.Special = []string{endOfText}
	}
	if o.MinCount == 0 {
		o.MinCount = 2
	}
	if least := 256 + len(o.Special); o.VocabSize < least {
		return nil, fault.Try(fmt.Errorf("tokenizer: vocabulary size %d is too small for 256 bytes and %d special tokens", o.VocabSize, len(o.Special)), "%d or more", 256+len(o.Special)+1)
	}
	words := newWordCounts()
	for text := range texts {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("tokenizer: train: %w", context.Cause(ctx))
		}
		gpt2Split{}.split(text, true, words.add)
	}
	l := newLearner(o.Special)
	l.takeWords(words)
	for len(l.tokens) < o.VocabSize {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("tokenizer: train: %w", context.Cause(ctx))
		}
		if !l.merge(int64(o.MinCount)) {
			break
		}
	}
	return l.tokenizer(o.Special)
}

// wordCounts counts pieces.
type wordCounts struct {
	index map[string]int32
	words []string
	count []int64
}

func newWordCounts() *wordCounts { return &wordCounts{index: map[string]int32{}} }

func (w *wordCounts) add(piece string, _ bool) {
	i, ok := w.index[piece]
	if !ok {
		i = int32(len(w.words))
		piece = strings.Clone(piece)
		w.index[piece] = i
		w.words = append(w.words, piece)
		w.count = append(w.count, 0)
	}
	w.count[i]++
}

// trainer is the training state: the tokens of each distinct word, and for each pair its count and
// the words that may contain it.
type trainer struct {
	tokens []string // by id
	ids    map[string]int32
	merges []merge

	words  [][]int32
	count  []int64
	pairs  map[uint64]int32 // index into stats
	stats  []pairStat
	heap   heap[queued]
	risen  []int32 // pairs whose count rose in this merge
	marked []bool  // by pair: is in risen
}

type pairStat struct {
	a, b  int32
	count int64
	words []int32 // may have duplicates, and words that lost the pair
}

func newLearner(special []string) *trainer {
	l := &trainer{tokens: slices.Clone(special), ids: map[string]int32{}, pairs: map[uint64]int32{}}
	// In the order of their runes, as Hugging Face sorts them.
	order := make([]byte, 256)
	for i := range order {
		order[i] = byte(i)
	}
	slices.SortFunc(order, func(x, y byte) int { return int(byteRunes[x]) - int(byteRunes[y]) })
	for _, b := range order {
		l.ids[string([]byte{b})] = int32(len(l.tokens))
		l.tokens = append(l.tokens, string([]byte{b}))
	}
	return l
}

// takeWords initializes the words and counts their pairs.
func (l *trainer) takeWords(w *wordCounts) {
	var byteID [256]int32
	for i := range byteID {
		byteID[i] = l.ids[string([]byte{byte(i)})]
	}
	total := 0
	for _, word := range w.words {
		total += len(word)
	}
	room := make([]int32, 0, total)
	for i, word := range w.words {
		n := len(room)
		for k := range len(word) {
			room = append(room, byteID[word[k]])
		}
		toks := room[n:len(room):len(room)]
		l.words = append(l.words, toks)
		l.count = append(l.count, w.count[i])
		for k := 0; k+1 < len(toks); k++ {
			l.change(toks[k], toks[k+1], l.count[i], int32(i))
		}
	}
	l.queueRisen()
}

// change adds n occurrences, possibly negative, of a pair in a word.
func (l *trainer) change(a, b int32, n int64, word int32) {
	key := pairKey(a, b)
	i, ok := l.pairs[key]
	if !ok {
		i = int32(len(l.stats))
		l.pairs[key] = i
		l.stats = append(l.stats, pairStat{a: a, b: b})
		l.marked = append(l.marked, false)
	}
	s := &l.stats[i]
	s.count += n
	if n < 0 {
		return
	}
	if k := len(s.words); k == 0 || s.words[k-1] != word {
		s.words = append(s.words, word)
	}
	if !l.marked[i] {
		l.marked[i] = true
		l.risen = append(l.risen, i)
	}
}

func (l *trainer) queueRisen() {
	for _, i := range l.risen {
		s := &l.stats[i]
		l.marked[i] = false
		if s.count > 0 {
			l.heap.push(queued{s.count, s.a, s.b, i})
		}
	}
	l.risen = l.risen[:0]
}

// merge merges the most frequent pair everywhere; false if its count is below atLeast.
func (l *trainer) merge(atLeast int64) bool {
	for len(l.heap) > 0 {
		q := l.heap.pop()
		s := &l.stats[q.pair]
		if s.count != q.count {
			// Counts fall without a heap update; risen pairs are in the heap again.
			if 0 < s.count && s.count < q.count {
				l.heap.push(queued{s.count, s.a, s.b, q.pair})
			}
			continue
		}
		if s.count < atLeast {
			return false
		}
		l.join(q.pair)
		return true
	}
	return false
}

func (l *trainer) join(pair int32) {
	a, b := l.stats[pair].a, l.stats[pair].b
	text := l.tokens[a] + l.tokens[b]
	id, ok := l.ids[text]
	if !ok {
		id = int32(len(l.tokens))
		l.tokens = append(l.tokens, text)
		l.ids[text] = id
	}
	l.merges = append(l.merges, merge{toRunes(l.tokens[a]), toRunes(l.tokens[b])})
	where := l.stats[pair].words
	l.stats[pair].words = nil
	for _, w := range where {
		l.words[w] = l.joinWord(l.words[w], a, b, id, l.count[w], w)
	}
	// The changes above count the remaining pairs of words like aaa exactly.
	l.queueRisen()
}

// joinWord replaces each a, b of a word by id and updates pair counts.
func (l *trainer) joinWord(toks []int32, a, b, id int32, n int64, w int32) []int32 {
	out := 0
	for i := 0; i < len(toks); i++ {
		if i+1 >= len(toks) || toks[i] != a || toks[i+1] != b {
			toks[out] = toks[i]
			out++
			continue
		}
		l.change(a, b, -n, w)
		if out > 0 {
			l.change(toks[out-1], a, -n, w)
			l.change(toks[out-1], id, n, w)
		}
		if i+2 < len(toks) {
			l.change(b, toks[i+2], -n, w)
			l.change(id, toks[i+2], n, w)
		}
		toks[out] = id
		out++
		i++
	}
	return toks[:out]
}

// tokenizer builds the trained tokenizer.
func (l *trainer) tokenizer(special []string) (*Tokenizer, error) {
	t := &Tokenizer{parts: parts{PreTokenizer: json.RawMessage(byteLevelJSON), Decoder: json.RawMessage(byteLevelJSON),
		Config: map[string]any{"tokenizer_class": "PreTrainedTokenizerFast"}}}
	f := &bpeJSON{Vocab: make(map[string]int32, len(l.tokens)), Merges: l.merges}
	for id, token := range l.tokens {
		if id < len(special) {
			t.added = append(t.added, AddedToken{ID: int32(id), Content: token, Special: true})
		} else {
			token = toRunes(token)
		}
		f.Vocab[token] = int32(id)
	}
	if len(special) > 0 {
		for _, key := range []string{"bos_token", "eos_token", "pad_token"} {
			t.parts.Config[key] = special[0]
		}
	}
	err := t.setBPE(f)
	if err == nil {
		err = t.readParts()
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: train: %w", err)
	}
	t.finish()
	return t, nil
}

// queued is a pair with its count when pushed.
type queued struct {
	count int64
	a, b  int32
	pair  int32
}

// before orders by descending count, then ids.
func (q queued) before(o queued) bool {
	if q.count != o.count {
		return q.count > o.count
	}
	if q.a != o.a {
		return q.a < o.a
	}
	return q.b < o.b
}
