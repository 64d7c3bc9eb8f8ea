package data

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// Rows and error positions do not depend on the size of reads.
func TestCSVReaderInPieces(t *testing.T) {
	parts := []string{"a", "bc é", ",", ",", `"`, `""`, "\n", "\r\n", "\r", " "}
	r, rows := rand.New(rand.NewPCG(1, 2)), 0
	for range 4000 {
		var b strings.Builder
		for range r.IntN(24) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text := []byte(b.String())
		whole := newCSVReader(bytes.NewReader(text), "x.csv", 12)
		single := newCSVReader(iotest.OneByteReader(bytes.NewReader(text)), "x.csv", 12)
		for {
			want, failed := single.read()
			got, err := whole.read()
			if (err == nil) != (failed == nil) || err != nil && err.Error() != failed.Error() || !slices.Equal(got, want) || whole.start != single.start {
				t.Fatalf("%q: %q, %v; byte by byte %q, %v", text, got, err, want, failed)
			}
			if err != nil {
				break
			}
			rows++
		}
	}
	if rows < 4000 {
		t.Errorf("%d rows were compared", rows)
	}
}
