package tokenizer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// unigram finds the segmentation with the highest sum of scores, which are log probabilities (Kudo
// 2018). An unknown character costs a fixed penalty below the lowest score.
type unigram struct {
	tokens   *trie
	scores   []float64 // by id
	unk      int32     // or -1 if every character has a token or byte tokens
	unkText  string    // its spelling, if a text may contain it
	penalty  float64   // score of an unknown character
	fallback *byteTokens
	// single sums in float32, as sentencepiece; Hugging Face uses float64.
	single bool
}

var _ model = (*unigram)(nil)

const unkPenalty = 10

// pathEnd is the best path to an offset of the piece.
type pathEnd struct {
	score float64
	start int32 // start of its last token; -1 if unreachable
	id    int32
}

func (u *unigram) encode(dst []int32, piece string, s *scratch) []int32 {
	if cap(s.path) < len(piece)+1 {
		s.path = make([]pathEnd, len(piece)+1, len(piece)+len(piece)/4+64)
	}
	ends := s.path[:len(piece)+1]
	ends[0] = pathEnd{}
	for i := range ends[1:] {
		ends[i+1].start = -1
	}
	for i := 0; i < len(piece); {
		_, n := runeAt(piece, i)
		here, known := ends[i].score, false
		node := u.tokens.root[piece[i]]
		for k := i + 1; node >= 0; k++ {
			if id := u.tokens.id[node]; id >= 0 {
				u.reach(&ends[k], here+u.scores[id], int32(i), id)
				known = known || k == i+n
			}
			if k == len(piece) {
				break
			}
			node = u.tokens.child(node, piece[k])
		}
		if !known {
			u.reach(&ends[i+n], here+u.penalty, int32(i), -1)
		}
		i += n
	}
	return u.trace(dst, piece, ends)
}

func (u *unigram) reach(e *pathEnd, score float64, start, id int32) {
	if u.single {
		score = float64(float32(score))
	}
	if e.start < 0 || score > e.score {
		*e = pathEnd{score, start, id}
	}
}

// trace appends the tokens of the best path. Consecutive unknown characters become one unknown
// token, or byte tokens.
func (u *unigram) trace(dst []int32, piece string, ends []pathEnd) []int32 {
	n := len(dst)
	for at := len(piece); at > 0; {
		e := ends[at]
		if e.id != u.unk && e.id >= 0 {
			dst = append(dst, e.id)
			at = int(e.start)
			continue
		}
		end := at
		for at > 0 && (ends[at].id == u.unk || ends[at].id < 0) {
			at = int(ends[at].start)
		}
		m := len(dst)
		ok := false
		if u.fallback != nil && piece[at:end] != u.unkText {
			dst, ok = u.fallback.appendAll(dst, piece[at:end])
			slices.Reverse(dst[m:])
		}
		if !ok && u.unk >= 0 {
			dst = append(dst, u.unk)
		}
	}
	slices.Reverse(dst[n:])
	return dst
}

// unigramJSON is the section "model" of tokenizer.json.
type unigramJSON struct {
	Type         string         `json:"type"`
	Unk          *int32         `json:"unk_id"`
	Vocab        []unigramToken `json:"vocab"`
	ByteFallback bool           `json:"byte_fallback"`
}

// unigramToken is ["token", score].
type unigramToken struct {
	token string
	score float64
}

func (t *unigramToken) UnmarshalJSON(b []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	if len(list) != 2 {
		return fmt.Errorf("a token of the vocabulary is not [text, score]: %.40s", b)
	}
	if err := json.Unmarshal(list[0], &t.token); err != nil {
		return err
	}
	var err error
	t.score, err = parseScore(list[1])
	return err
}

func (t unigramToken) MarshalJSON() ([]byte, error) {
	token, err := plainJSON(t.token, "")
	if err != nil {
		return nil, err
	}
	score, err := spellScore(t.score)
	return fmt.Appendf(nil, "[%s,%s]", token[:len(token)-1], score), err
}

func newUnigram(f *unigramJSON) (*unigram, error) {
	u := &unigram{unk: -1, scores: make([]float64, len(f.Vocab))}
	keys := make([]trieKey, len(f.Vocab))
	vocab := make(map[string]int32, len(f.Vocab))
	least := math.Inf(1)
	for i, t := range f.Vocab {
		keys[i] = trieKey{t.token, int32(i)}
		vocab[t.token] = int32(i)
		u.scores[i] = t.score
		least = min(least, t.score)
	}
	u.tokens, u.penalty = newTrie(keys), least-unkPenalty
	bytes := false
	if f.ByteFallback {
		u.fallback, bytes = findByteTokens(vocab)
	}
	switch {
	case f.Unk != nil && (*f.Unk < 0 || int(*f.Unk) >= len(f.Vocab)):
		return nil, fmt.Errorf("unk_id %d is outside the vocabulary of %d", *f.Unk, len(f.Vocab))
	case f.Unk != nil:
		u.unk, u.unkText = *f.Unk, f.Vocab[*f.Unk].token
	case !bytes:
		return nil, fmt.Errorf("no unk_id, and some bytes have no token: unknown characters could not be encoded")
	}
	return u, nil
}

func (u *unigram) section(t *Tokenizer) (any, error) {
	s := unigramJSON{Type: "Unigram", ByteFallback: u.fallback != nil, Vocab: make([]unigramToken, len(u.scores))}
	if u.unk >= 0 {
		s.Unk = &u.unk
	}
	for id, score := range u.scores {
		s.Vocab[id] = unigramToken{t.spelled[id], score}
	}
	return s, nil
}

func (u *unigram) describe(w io.Writer) {
	fmt.Fprintln(w, "Unigram", u.unk, u.fallback != nil, u.single, len(u.scores))
	buf := make([]byte, 0, 8*len(u.scores))
	for _, x := range u.scores {
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(x))
	}
	w.Write(buf)
}
