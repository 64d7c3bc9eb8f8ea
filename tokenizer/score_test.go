package tokenizer

import (
	"bufio"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
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
		if b, err := spellScore(want); err != nil {
			t.Error(err)
		} else if again, err := parseScore(b); err != nil || again != want {
			t.Errorf("%v is written as %s and read as %v, %v", want, b, again, err)
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

// Every score that a file can have is written so that it is read again.
func TestScoresRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		x := -8 * r.ExpFloat64()
		for _, digits := range []int{-1, 16, 18, 20} {
			f, err := parseScore(strconv.AppendFloat(nil, x, 'e', digits, 64))
			if err != nil {
				t.Fatal(err)
			}
			b, err := spellScore(f)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := parseScore(b); err != nil || again != f {
				t.Fatalf("%v is written as %s and read as %v, %v", f, b, again, err)
			}
		}
	}
}
