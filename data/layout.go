package data

import (
	"errors"
	"slices"

	"trireme/fault"
	"trireme/tokenizer"
)

// layout is the special tokens and token types that a tokenizer's template adds to one or two
// texts.
type layout struct {
	before, between, after  []int32 // between is nil for one text
	typeBefore, typeFirst   int32
	typeBetween, typeSecond int32
	typeAfter               int32
	pair                    bool
}

// layoutOf finds the template from the encoding of short texts.
func layoutOf(tok *tokenizer.Tokenizer, pair bool) (l layout, err error) {
	one := tok.Encode("a", tokenizer.Options{})
	if !pair {
		all := tok.Encode("a", tokenizer.Options{AddSpecialTokens: true})
		i := index(all, one)
		if len(one) == 0 || i < 0 {
			return l, fault.Try(errors.New("data: the tokenizer's template omits the text"), "another tokenizer")
		}
		return layout{before: all[:i], after: all[i+len(one):]}, nil
	}
	all, types := tok.EncodePair("a", "a", tokenizer.Options{AddSpecialTokens: true})
	i := index(all, one)
	k := -1
	if len(one) > 0 && i >= 0 {
		k = index(all[i+len(one):], one)
	}
	if k <= 0 {
		return l, fault.Try(errors.New("data: the rows are text pairs, but the tokenizer's template has no separator"), "%s to leave the second out", fault.Set("data.columns.text_pair", "NONE"))
	}
	k += i + len(one)
	end := k + len(one)
	l = layout{before: all[:i], between: all[i+len(one) : k], after: all[end:], pair: true}
	l.typeFirst, l.typeBetween, l.typeSecond = types[i], types[i+len(one)], types[k]
	if i > 0 {
		l.typeBefore = types[0]
	}
	if end < len(all) {
		l.typeAfter = types[end]
	}
	return l, nil
}

// index returns the index of part in all, or -1.
func index(all, part []int32) int {
	for i := 0; i+len(part) <= len(all); i++ {
		if slices.Equal(all[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// typed reports whether there are token types other than 0.
func (l *layout) typed() bool {
	return l.typeBefore|l.typeFirst|l.typeBetween|l.typeSecond|l.typeAfter != 0
}

// truncate shortens ids, which have this layout, to maxLen tokens: from the end of the text or, for
// pairs, of the longer one, token by token (longest_first). It sets types, if not nil.
func (l *layout) truncate(ids []int32, maxLen int, types []int32) ([]int32, []int32) {
	body := ids[len(l.before) : len(ids)-len(l.after)]
	if !l.pair {
		if over := len(ids) - maxLen; over > 0 {
			keep := max(len(body)-over, 0)
			ids = slices.Delete(ids, len(l.before)+keep, len(l.before)+len(body))
		}
		return ids[:min(len(ids), maxLen)], types
	}
	split := max(index(body, l.between), 0)
	first, second := split, len(body)-split-len(l.between)
	if over := len(ids) - maxLen; over > 0 {
		keep1, keep2 := first, second
		for ; over > 0 && keep1+keep2 > 0; over-- {
			if keep1 > keep2 {
				keep1--
			} else {
				keep2--
			}
		}
		at := len(l.before) + first + len(l.between)
		ids = slices.Delete(ids, at+keep2, at+second)
		ids = slices.Delete(ids, len(l.before)+keep1, len(l.before)+first)
		first, second = keep1, keep2
	}
	types = types[:0]
	for _, part := range []struct {
		n    int
		kind int32
	}{
		{len(l.before), l.typeBefore},
		{first, l.typeFirst},
		{len(l.between), l.typeBetween},
		{second, l.typeSecond},
		{len(l.after), l.typeAfter},
	} {
		for range part.n {
			types = append(types, part.kind)
		}
	}
	n := min(len(ids), maxLen)
	return ids[:n], types[:n]
}
