package data

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// randperm is torch.randperm, all at once.
func randperm(n int, seed uint64) []uint32 {
	p := make([]uint32, n)
	for i := range p {
		p[i] = uint32(i)
	}
	m := newMT19937(uint32(seed))
	for i := range n - 1 {
		j := i + int(m.uint32()%uint32(n-i))
		p[i], p[j] = p[j], p[i]
	}
	return p
}

func TestPermutationIsTorchRandperm(t *testing.T) {
	p := newPermutation(10)
	for seed, want := range map[uint64][]uint32{
		0:  {4, 1, 7, 5, 3, 9, 0, 8, 6, 2},
		1:  {5, 6, 1, 2, 0, 8, 9, 3, 7, 4},
		42: {2, 6, 1, 8, 4, 5, 0, 9, 3, 7},
	} {
		p.start(seed)
		if p.at(9); !slices.Equal(p.elements, want) || !slices.Equal(randperm(10, seed), want) {
			t.Errorf("seed %d: %v, want %v", seed, p.elements, want)
		}
	}
}

// Elements do not depend on the order in which they are read, nor on an earlier epoch in the same memory.
func TestPermutationInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5*permutationBlock).Draw(t, "n")
		p := newPermutation(n)
		for range 2 {
			seed := rapid.Uint64().Draw(t, "seed")
			want := randperm(n, seed)
			p.start(seed)
			for _, k := range rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 40).Draw(t, "read") {
				if got := p.at(k); got != int(want[k]) {
					t.Fatalf("element %d of %d is %d, want %d", k, n, got, want[k])
				}
			}
		}
	})
}

// Number 10000 of MT19937 with seed 5489 is in its authors' reference.
func TestMT19937(t *testing.T) {
	m := newMT19937(5489)
	if v := m.uint32(); v != 3499211612 {
		t.Errorf("first number %d", v)
	}
	for range 9998 {
		m.uint32()
	}
	if v := m.uint32(); v != 4123659995 {
		t.Errorf("number 10000 is %d", v)
	}
}

// TestBillionTokens trains on 10^9 tokens, of a file with holes. The first batch of an epoch shuffles no more rows
// than any other batch.
func TestBillionTokens(t *testing.T) {
	const tokens, length, batch = 1e9, 16, 64
	path := filepath.Join(t.TempDir(), "tokens.bin")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 2*tokens); err != nil {
		t.Skip("SKIPPED: no files with holes:", err)
	}
	c := textConfig(t, path)
	c.SequenceLength = length
	s := open(t, c, nil)
	l, err := NewLoader(s.Train, LoaderConfig{MicroBatchSize: batch, Seed: 1, Shuffle: true, Prefetch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for epoch := range int64(3) {
		state := l.State()
		state.Epoch, state.Sample = epoch, 0
		if err := l.Restore(state); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if b := next(t, l); b.Tokens != batch*length {
				t.Fatalf("batch of %d tokens", b.Tokens)
			}
		}
		l.stop() // its goroutine owns the permutation
		p := l.seq.perm
		filled := 0
		for _, f := range p.filled {
			if f {
				filled++
			}
		}
		if most := batch * 6; len(p.elements) != tokens/length || p.final > most || filled > 2*most {
			t.Errorf("epoch %d: after 3 batches %d of %d rows are shuffled, in %d blocks", epoch, p.final, len(p.elements), filled)
		}
	}
}
