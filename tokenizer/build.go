package tokenizer

import (
	"fmt"
	"maps"
	"slices"
)

// setBPE selects byteBPE if the last pre-tokenizer step is byte-level, else runeBPE.
func (t *Tokenizer) setBPE(f *bpeJSON) error {
	if err := t.setVocab(f.Vocab); err != nil {
		return err
	}
	var p splitters
	if err := p.read(t.parts.PreTokenizer); err != nil {
		return nil // readParts reports the error
	}
	tables, err := f.tables()
	if err != nil {
		return err
	}
	if p.byteLevel {
		if b, ok := newByteBPE(f, tables); ok {
			t.model = b
			return nil
		}
	}
	t.model = newRuneBPE(f.Vocab, tables)
	return nil
}

func (t *Tokenizer) setUnigram(f *unigramJSON) error {
	if len(f.Vocab) == 0 {
		return fmt.Errorf("the vocabulary is empty")
	}
	if err := t.checkAdded(len(f.Vocab)); err != nil {
		return err
	}
	t.makeIDs(int32(len(f.Vocab)-1), len(f.Vocab))
	for i, token := range f.Vocab {
		t.spelled[i], t.inModel[i] = token.token, true
		t.ids[token.token] = int32(i)
	}
	var err error
	t.model, err = newUnigram(f)
	return err
}

// makeIDs allocates the tables for ids up to top.
func (t *Tokenizer) makeIDs(top int32, size int) {
	for _, a := range t.added {
		top = max(top, a.ID)
	}
	t.spelled, t.inModel = make([]string, top+1), make([]bool, top+1)
	t.ids = make(map[string]int32, size+len(t.added))
}

// idLimit limits ids, since tables grow with the largest id; gaps are allowed.
func idLimit(n int) int32 { return int32(2*n + 1<<16) }

// setVocab fills the token tables from a model's vocabulary.
func (t *Tokenizer) setVocab(vocab map[string]int32) error {
	if len(vocab) == 0 {
		return fmt.Errorf("the vocabulary is empty")
	}
	limit, top := idLimit(len(vocab)+len(t.added)), int32(-1)
	for token, id := range vocab {
		if id < 0 || id > limit {
			return fmt.Errorf("token %.40q has id %d in a vocabulary of %d", token, id, len(vocab))
		}
		top = max(top, id)
	}
	if err := t.checkAdded(len(vocab)); err != nil {
		return err
	}
	t.makeIDs(top, len(vocab))
	for token, id := range vocab {
		if old := t.spelled[id]; t.inModel[id] {
			return fmt.Errorf("tokens %.40q and %.40q both have id %d", min(old, token), max(old, token), id)
		}
		t.spelled[id], t.inModel[id] = token, true
		t.ids[token] = id
	}
	return nil
}

func (t *Tokenizer) checkAdded(vocab int) error {
	seen := make(map[int32]string, len(t.added))
	for _, a := range t.added {
		if a.ID < 0 || a.ID > idLimit(vocab+len(t.added)) {
			return fmt.Errorf("added_tokens: %.40q has id %d in a vocabulary of %d", a.Content, a.ID, vocab)
		}
		if old, ok := seen[a.ID]; ok && old != a.Content {
			return fmt.Errorf("added_tokens: %.40q and %.40q both have id %d", old, a.Content, a.ID)
		}
		seen[a.ID] = a.Content
	}
	return nil
}

// addConfigured adds tokens of tokenizer_config.json that tokenizer.json lacks, as transformers
// does: with their id in the vocabulary, else the configured id, else, if that is taken, a new one.
func (t *Tokenizer) addConfigured() error {
	config := maps.Clone(t.parts.Config)
	delete(config, fileAddedTokens)
	more, err := addedTokens(config, t.ids, nil)
	if err != nil {
		return err
	}
	slices.SortFunc(more, func(a, b AddedToken) int { return int(a.ID) - int(b.ID) })
	taken := map[int32]bool{}
	listed := map[string]bool{}
	for _, a := range t.added {
		taken[a.ID], listed[a.Content] = true, true
	}
	for _, a := range more {
		if listed[a.Content] {
			continue
		}
		id, known := t.ids[a.Content]
		switch other := a.ID >= 0 && int(a.ID) < len(t.spelled) && t.inModel[a.ID]; {
		case known:
			a.ID = id
		case other || taken[a.ID]:
			a.ID = int32(len(t.spelled))
		}
		t.added = append(t.added, a)
		if err := t.checkAdded(len(t.spelled)); err != nil {
			return err
		}
		taken[a.ID] = true
		if n := int(a.ID) + 1 - len(t.spelled); n > 0 {
			t.spelled, t.inModel = append(t.spelled, make([]string, n)...), append(t.inModel, make([]bool, n)...)
		}
	}
	return nil
}

// readParts reads the sections besides the model.
func (t *Tokenizer) readParts() error {
	var err error
	if t.normal, err = readNormalizer(t.parts.Normalizer); err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	var p splitters
	if err := p.read(t.parts.PreTokenizer); err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	if _, bytes := t.model.(*byteBPE); !bytes {
		p.add()
	}
	t.splits = p.list
	if err := t.template.read(t.parts.PostProcessor, len(t.spelled)); err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	if absent(t.parts.Decoder) {
		t.decoder = joined()
	} else if err := t.decoder.read(t.parts.Decoder); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	return nil
}

// finish computes derived tables.
func (t *Tokenizer) finish() {
	slices.SortStableFunc(t.added, func(a, b AddedToken) int { return int(a.ID) - int(b.ID) })
	t.special = map[int32]bool{}
	t.names = slices.Clone(t.spelled)
	for _, a := range t.added {
		if a.Content == "" {
			continue
		}
		t.names[a.ID] = a.Content
		t.ids[a.Content] = a.ID
		if a.Special {
			t.special[a.ID] = true
		}
	}
	t.firstMatters, t.lastMatters = t.decoder.firstMatters(), t.decoder.lastMatters()
	t.texts = make([]string, len(t.names))
	for id, token := range t.names {
		if token != "" {
			t.texts[id] = t.decoder.text(token, token != t.spelled[id], false, false)
		}
	}
	if b, ok := t.model.(*runeBPE); ok {
		if c := newCutSplit(b, t.spelled); c != nil {
			t.splits = append(t.splits, c)
		}
	}
	t.raw, t.cooked = newMatcher(t.added, false, nil), newMatcher(t.added, true, t.normal)
	t.setEnds()
}
