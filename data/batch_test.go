package data

import (
	"fmt"
	"slices"
	"testing"
)

// TestTokenKeys: keys are unique in a run and independent of the micro-batch; positions restart in
// each document.
func TestTokenKeys(t *testing.T) {
	rows := []Row{
		{InputIDs: []int32{5, 6, 7, 8, 9}, Docs: []int32{0, 0, 1, 1, 1}},
		{InputIDs: []int32{5}, Docs: []int32{0}},
		{InputIDs: []int32{5, 6, 7}, Docs: []int32{0, 1, 2}},
		{InputIDs: []int32{5, 6, 7, 8}, Docs: []int32{0, 0, 0, 0}},
	}
	positions := [][]int32{{0, 1, 0, 1, 2}, {0}, {0, 0, 0}, {0, 1, 2, 3}}
	lengths := []string{"[2 3]", "[1]", "[1 1 1]", "[4]"} // of their documents
	for _, task := range []Task{CausalLM, MaskedLM} {
		cfg := LoaderConfig{Task: task}
		seen, at := map[int64]bool{}, map[int][]int64{}
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 1}, {2, 0}} {
			m := newMicroBatch(5, 20, Info{Docs: true})
			for k, i := range order {
				row := rows[i]
				row.Labels = row.InputIDs
				m.append(&row, int64(i), &cfg)
				lo, hi := m.Starts[k], m.Starts[k+1]
				if got := m.Positions[lo:hi]; !slices.Equal(got, positions[i]) {
					t.Errorf("task %v, row %d: positions %v, want %v", task, i, got, positions[i])
				}
				one := MicroBatch{Starts: []int32{0, hi - lo}, Docs: m.Docs[lo:hi]}
				var got []int
				if one.documents(func(tokens int) { got = append(got, tokens) }); fmt.Sprint(got) != lengths[i] {
					t.Errorf("row %d: documents of %v tokens, want %s", i, got, lengths[i])
				}
				numbers := slices.Clone(m.TokenKeys[lo:hi])
				if at[i] == nil {
					at[i] = numbers
					for _, n := range numbers {
						if seen[n] {
							t.Errorf("task %v, row %d: number %d is another token's too", task, i, n)
						}
						seen[n] = true
					}
				} else if fmt.Sprint(numbers) != fmt.Sprint(at[i]) {
					t.Errorf("task %v, row %d: numbers %v, and %v elsewhere", task, i, numbers, at[i])
				}
			}
		}
	}
}

// TestEmptyRows: a row that fills up a rank's micro-batches has no loss.
func TestEmptyRows(t *testing.T) {
	all := &Masking{chosen: 1 << 32, mask: 3, special: make([]bool, 8)}
	for _, cfg := range []LoaderConfig{{Task: CausalLM}, {Task: MaskedLM}, {Task: MaskedLM, Masking: all}, {Task: SequenceClassification}} {
		m := newMicroBatch(4, 4, Info{Classes: cfg.Task == SequenceClassification})
		m.addEmpty(&cfg)
		if m.Rows() != 1 || m.LabelCount != 0 || m.Targets[0] != Ignored || m.Classes != nil && m.Classes[0] != Ignored {
			t.Errorf("task %v: %+v", cfg.Task, m)
		}
	}
}
