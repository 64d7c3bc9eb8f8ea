package tokenizer

import "slices"

// trie finds tokens at the start of a text. Nodes are in breadth-first order, so siblings are
// adjacent, sorted by byte.
type trie struct {
	root  [256]int32 // child of the root by first byte, or -1
	label []byte     // by node: its byte
	id    []int32    // its token, or -1
	first []int32    // its first child; children end at the next node's first
}

// trieKey is one token.
type trieKey struct {
	text string
	id   int32
}

// newTrie builds a trie of sorted keys. Of equal texts it keeps the last; it ignores the empty text.
func newTrie(keys []trieKey) *trie {
	slices.SortStableFunc(keys, func(a, b trieKey) int {
		switch {
		case a.text < b.text:
			return -1
		case a.text > b.text:
			return 1
		}
		return 0
	})
	for len(keys) > 0 && keys[0].text == "" {
		keys = keys[1:]
	}
	t := &trie{}
	for i := range t.root {
		t.root[i] = -1
	}
	// A range of keys below a node, which share depth bytes.
	type span struct{ lo, hi, depth int }
	var queue []span
	add := func(lo, hi, depth int) {
		for lo < hi {
			c := keys[lo].text[depth]
			end := lo + 1
			for end < hi && keys[end].text[depth] == c {
				end++
			}
			node := int32(len(t.label))
			if depth == 0 {
				t.root[c] = node
			}
			t.label = append(t.label, c)
			t.id = append(t.id, -1)
			for lo < end && len(keys[lo].text) == depth+1 {
				t.id[node] = keys[lo].id
				lo++
			}
			queue = append(queue, span{lo, end, depth + 1})
			lo = end
		}
	}
	add(0, len(keys), 0)
	for i := 0; i < len(queue); i++ {
		t.first = append(t.first, int32(len(t.label)))
		add(queue[i].lo, queue[i].hi, queue[i].depth)
	}
	t.first = append(t.first, int32(len(t.label)))
	return t
}

// child returns the child of node for byte c, or -1.
func (t *trie) child(node int32, c byte) int32 {
	lo, hi := t.first[node], t.first[node+1]
	for hi-lo > 8 {
		if mid := (lo + hi) / 2; t.label[mid] > c {
			hi = mid
		} else {
			lo = mid
		}
	}
	for ; lo < hi; lo++ {
		if t.label[lo] == c {
			return lo
		}
	}
	return -1
}

// longest returns the longest token at the start of s and its length, 0 if none.
func (t *trie) longest(s string) (id int32, n int) {
	id = -1
	if s == "" {
		return id, 0
	}
	for node, i := t.root[s[0]], 1; node >= 0; i++ {
		if t.id[node] >= 0 {
			id, n = t.id[node], i
		}
		if i == len(s) {
			break
		}
		node = t.child(node, s[i])
	}
	return id, n
}
