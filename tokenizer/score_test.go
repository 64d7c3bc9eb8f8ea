package tokenizer

import (
	"bufio"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// Scores have the bits that tokenizers reads.
func TestParseScore(t *testing.T) {
	f, err := os.Open("testdata/scores.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, other := 0, 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var number string
		var want, nearest float64
		if err := json.Unmarshal(s.Bytes(), &[]any{&number, &want}); err != nil {
			t.Fatal(err)
		}
		got, err := parseScore([]byte(number))
		if err != nil || math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%s is %v, %v, want %v", number, got, err, want)
		}
		if err := json.Unmarshal([]byte(number), &nearest); err == nil && nearest != want {
			other++
		}
	}
	if n < 300 || other < 40 {
		t.Errorf("%d numbers, %d of them not read as the nearest", n, other)
	}
	for _, bad := range []string{`"1"`, `null`, `[1]`, `1e999`, `true`} {
		if _, err := parseScore([]byte(bad)); err == nil {
			t.Errorf("%s is a score", bad)
		}
	}
}

// A tokenizer that is saved and loaded has its scores.
func TestScoresRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		f, err := parseScore([]byte(strings.Repeat("9", r.IntN(2)) + "7." + strings.Repeat("3", r.IntN(18)) + "8"))
		if err != nil {
			t.Fatal(err)
		}
		g := -8 * r.ExpFloat64()
		b, err := spellScore(g)
		if err != nil {
			t.Fatal(err)
		}
		if g, err = parseScore(b); err != nil { // one that a file can have
			t.Fatal(err)
		}
		for _, x := range []float64{f, g, 0, -1e300, 5e-324} {
			b, err := spellScore(x)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := parseScore(b); err != nil || got != x {
				t.Fatalf("%v is written as %s and read as %v, %v", x, b, got, err)
			}
		}
	}
}
