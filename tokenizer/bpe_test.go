package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naiveMerge repeatedly merges the leftmost pair of lowest rank.
func naiveMerge(b *byteBPE, ids []int32) []int32 {
	rank := map[[2]int32]int{}
	for i, pair := range b.list {
		rank[pair] = i
	}
	for {
		best, where := len(b.list), -1
		for i := 0; i+1 < len(ids); i++ {
			if r, ok := rank[[2]int32{ids[i], ids[i+1]}]; ok && r < best {
				best, where = r, i
			}
		}
		if where < 0 {
			return ids
		}
		id := int32(uint32(b.merges.get(ids[where], ids[where+1])))
		ids = append(append(slices.Clone(ids[:where]), id), ids[where+2:]...)
	}
}

// randomBPE has merges over a few letters in arbitrary order.
func randomBPE(t *rapid.T) *byteBPE {
	f := &bpeJSON{Vocab: map[string]int32{"a": 0, "b": 1, "c": 2}}
	tokens := []string{"a", "b", "c"}
	for range rapid.IntRange(0, 30).Draw(t, "merges") {
		x := rapid.SampledFrom(tokens).Draw(t, "x")
		y := rapid.SampledFrom(tokens).Draw(t, "y")
		if _, ok := f.Vocab[x+y]; !ok {
			f.Vocab[x+y] = int32(len(tokens))
			tokens = append(tokens, x+y)
		}
		f.Merges = append(f.Merges, merge{x, y})
	}
	seed := rapid.Uint64().Draw(t, "order")
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(f.Merges), func(i, j int) { f.Merges[i], f.Merges[j] = f.Merges[j], f.Merges[i] })
	tables, err := f.tables()
	if err != nil {
		t.Fatal(err)
	}
	b, ok := newByteBPE(f, tables)
	if !ok {
		t.Fatal("not of bytes")
	}
	return b
}

func TestMergesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := randomBPE(t)
		ids := rapid.SliceOfN(rapid.Int32Range(0, 2), 0, shortPiece).Draw(t, "ids")
		want := naiveMerge(b, ids)
		var s scratch
		short := slices.Clone(ids)
		if short = short[:b.merges.mergeShort(short, &s)]; !slices.Equal(short, want) {
			t.Fatalf("short: %v, want %v", short, want)
		}
		long := slices.Clone(ids)
		if long = long[:b.merges.mergeLong(long, &s)]; !slices.Equal(long, want) {
			t.Fatalf("long: %v, want %v", long, want)
		}
	})
}

// A word of a megabyte must not take quadratic time.
func TestLongWordsAreNotQuadratic(t *testing.T) {
	tok := load(t, "gpt2")
	for _, unit := range []string{"a", " ", "ab", "=", "é", "1"} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		start := time.Now()
		if tok.Decode(tok.Encode(text, Options{})) != text {
			t.Errorf("%q does not come back", unit)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%q took %v", unit, took)
		}
	}
}

func TestEncodeAllocatesNothing(t *testing.T) {
	tok := load(t, "gpt2")
	text := readFile(t, shared(t, "corpora/wiki_demo.txt"))[:50_000]
	dst := tok.Encode(text, Options{})
	if n := testing.AllocsPerRun(5, func() { dst = tok.Append(dst[:0], text, Options{}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The cache does not change the tokens.
func TestCacheIsTransparent(t *testing.T) {
	tok := load(t, "gpt2")
	b := tok.model.(*byteBPE)
	var s scratch
	e := tok.take()
	defer tok.give(e)
	text := readFile(t, shared(t, "corpora/wiki_demo.txt"))[:300_000]
	gpt2Split{}.split(text, true, func(p string, _ bool) {
		e.dst = e.dst[:0]
		e.piece(p, false)
		if want := b.encode(nil, p, &s); !slices.Equal(e.dst, want) {
			t.Fatalf("%q: %v, want %v", p, e.dst, want)
		}
	})
}
