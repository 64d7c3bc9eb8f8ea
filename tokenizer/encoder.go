package tokenizer

// encoder is the working memory of one Append, with its word cache.
type encoder struct {
	t       *Tokenizer
	dst     []int32
	cache   wordCache
	scratch scratch
	emit    []pieceFunc // emit[i] receives the pieces of splits[i]
}

// take returns an encoder that no other call uses.
func (t *Tokenizer) take() *encoder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.idle); n > 0 {
		e := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return e
	}
	e := &encoder{t: t, cache: make(wordCache, cacheEntries), emit: make([]pieceFunc, len(t.splits))}
	for i := range t.splits {
		if i+1 == len(t.splits) {
			e.emit[i] = e.piece
			continue
		}
		e.emit[i] = func(p string, first bool) { t.splits[i+1].split(p, first, e.emit[i+1]) }
	}
	return e
}

// give returns an encoder to the pool.
func (t *Tokenizer) give(e *encoder) {
	e.scratch.trim()
	t.mu.Lock()
	t.idle = append(t.idle, e)
	t.mu.Unlock()
}

// text matches the added tokens that come before normalization.
func (e *encoder) text(s string, literal bool) {
	for done := 0; done < len(s); {
		a, lo, hi := e.t.raw.next(s, done, literal)
		e.normalized(s[done:lo], done == 0, literal)
		if a != nil {
			e.dst = append(e.dst, a.ID)
		}
		done = hi
	}
}

// normalized normalizes, matches the remaining added tokens, and splits the rest.
func (e *encoder) normalized(s string, first, literal bool) {
	if s == "" {
		return
	}
	if e.t.normal != nil {
		s = e.t.normal(s)
	}
	for done := 0; done < len(s); {
		a, lo, hi := e.t.cooked.next(s, done, literal)
		if lo > done {
			e.split(s[done:lo], first && done == 0)
		}
		if a != nil {
			e.dst = append(e.dst, a.ID)
		}
		done = hi
	}
}

func (e *encoder) split(s string, first bool) {
	if len(e.t.splits) == 0 {
		e.piece(s, first)
		return
	}
	e.t.splits[0].split(s, first, e.emit[0])
}

// piece appends the tokens of a piece, using the cache.
func (e *encoder) piece(p string, _ bool) {
	if len(p) > cachedBytes || p == "" {
		e.dst = e.t.model.encode(e.dst, p, &e.scratch)
		return
	}
	k := keyOf(p)
	c := e.cache.slot(&k, len(p))
	if int(c.len) == len(p) && c.key == k {
		e.dst = append(e.dst, c.toks[:c.n]...)
		return
	}
	n := len(e.dst)
	e.dst = e.t.model.encode(e.dst, p, &e.scratch)
	if m := len(e.dst) - n; m <= cachedTokens {
		c.key, c.len, c.n = k, uint8(len(p)), uint8(m)
		copy(c.toks[:], e.dst[n:])
	}
}
