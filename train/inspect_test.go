package train

import (
	"testing"

	"trireme/data"
)

// A permuted dataset has every row once, with its start spread over all rows.
func TestStride(t *testing.T) {
	for n := 1; n < 400; n++ {
		v := &permuted{n: n, stride: stride(n)}
		seen := make([]bool, n)
		for i := range n {
			if at := v.at(i); seen[at] {
				t.Fatalf("%d rows: row %d comes twice", n, at)
			} else {
				seen[at] = true
			}
		}
	}
	const n, looked = 1_000_000, 1000
	v := &permuted{n: n, stride: stride(n)}
	var tenths [10]int
	for i := range looked {
		tenths[v.at(i)*10/n]++
	}
	for i, c := range tenths {
		if c < looked/10-5 || c > looked/10+5 {
			t.Errorf("tenth %d of the rows has %d of the %d sampled", i, c, looked)
		}
	}
}

// rows is a dataset of one-document rows, few of them with labels.
type rows struct{ n, labeled int }

func (d rows) Len() int         { return d.n }
func (d rows) Tokens(int) int   { return 4 }
func (d rows) Where(int) string { return "rows" }
func (d rows) Info() data.Info  { return data.Info{Length: 4, Tokens: int64(4 * d.n)} }
func (d rows) Close() error     { return nil }
func (d rows) Row(i int, r *data.Row) error {
	r.InputIDs = []int32{1, 2, 3, 4}
	r.Labels = []int32{-100, -100, -100, -100}
	if i < d.labeled {
		r.Labels[3] = 4
	}
	return nil
}

func TestLook(t *testing.T) {
	s := &DataSummary{SequenceLength: 4, Rows: 1000}
	if err := s.sample(rows{1000, 3}, data.LoaderConfig{}); err != nil {
		t.Fatal(err)
	}
	if s.SampledRows != 1000 || s.LabelTokens != 3 || s.Unlabeled != 997 {
		t.Errorf("sampled %d rows with %d label tokens, %d rows without labels; want 1000, 3, 997", s.SampledRows, s.LabelTokens, s.Unlabeled)
	}
	if err := (&DataSummary{SequenceLength: 4, Rows: 1000}).sample(rows{1000, 0}, data.LoaderConfig{}); err == nil {
		t.Error("rows without labels are no error")
	}
}
