package train_test

import (
	"testing"

	"trireme/data"
	"trireme/internal/backend/naive"
	"trireme/tensor"
	"trireme/train"
)

type bucketed struct{ tensor.Backend }

func (bucketed) Static() bool { return true }

// Padding rows start at an existing token outside all rows and count nothing.
func TestUploadFillsBuckets(t *testing.T) {
	for rows := 1; rows <= 20; rows++ {
		for tokens := rows; tokens <= 64; tokens++ {
			m := data.UniformMicroBatch(rows, tokens, 64, data.Info{Classes: true})
			m.MaxRows, m.MaxTokens = 20, 64
			batch, done := train.Upload(bucketed{naive.New()}, m)
			starts, classes := tensor.Host[int32](batch.Starts), tensor.Host[int32](batch.Classes)
			for i := rows; i < batch.Sequences(); i++ {
				if at := int(starts[i]); at < tokens || at >= batch.IDs.Elems() || int(starts[i+1]) != at || classes[i] != data.Ignored {
					t.Fatalf("%d rows of %d tokens in all: row %d of class %d begins at %d of %d and ends at %d", rows, tokens, i, classes[i], at, batch.IDs.Elems(), starts[i+1])
				}
			}
			done()
		}
	}
	for rows := 1; rows <= 5; rows++ { // a program sees full rows if nothing is padding
		m := data.UniformMicroBatch(rows, 20*rows, 20, data.Info{})
		for _, most := range []int{rows, 5} {
			m.MaxRows, m.MaxTokens = most, 20*most
			batch, done := train.Upload(bucketed{naive.New()}, m)
			if full := batch.IDs.Elems() == 20*rows && batch.Sequences() == rows; full != (batch.SeqLen == 20) {
				t.Errorf("%d of %d rows: %d tokens in %d rows, every one of %d", rows, most, batch.IDs.Elems(), batch.Sequences(), batch.SeqLen)
			}
			done()
		}
	}
}
