package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"trireme/autograd"
	"trireme/internal/backend/naive"
	"trireme/model"
	"trireme/tensor"
)

// rowLengths are the lengths of a batch's sequences, up to rowMost tokens.
var rowLengths = []int{2, 5, 1, 4}

const rowMost = 5

// Rows checks that packed sequences of different lengths give the same sums and gradients as padded
// ones, whose padding is a document without labels, in training with dropout and in evaluation.
func Rows(t *testing.T, f model.Family, config string) {
	t.Helper()
	for _, docs := range []bool{false, true} {
		for _, train := range []bool{false, true} {
			t.Run(fmt.Sprintf("rows, documents %t, training %t", docs, train), func(t *testing.T) {
				packed, padded := newNetwork(t, naive.New(), f, config, docs, recomputation{}), newNetwork(t, naive.New(), f, config, docs, recomputation{})
				got, want := packed.rows(docs, train, false), padded.rows(docs, train, true)
				near := func(what string, got, want float64) {
					t.Helper()
					if math.Abs(got-want) > 1e-11*(1+math.Abs(want)) {
						t.Errorf("%s is %v, of padded rows %v", what, got, want)
					}
				}
				for i := range want {
					near(fmt.Sprint("sum ", i), got[i], want[i])
				}
				if got[0] == 0 {
					t.Error("nothing was counted")
				}
				for _, p := range model.Params(packed.m) {
					was := tensor.Host[float64](padded.grads[p.Name])
					for i, g := range tensor.Host[float64](packed.grads[p.Name]) {
						near(fmt.Sprintf("the gradient of %s, element %d,", p.Name, i), g, was[i])
					}
				}
			})
		}
	}
}

// rows runs forward and, in training, backward, and returns the sums.
func (n *network) rows(docs, train, pad bool) []float64 {
	tape, sums := autograd.NewTape(n.b, tensor.F64, train), n.zeros()
	b := n.rowBatch(docs, pad)
	b.Train = train
	for _, p := range model.Params(n.m) {
		n.b.Fill(n.grads[p.Name], 0)
	}
	model.Loss(n.m, tape, b, sums)
	tape.Backward()
	return slices.Clone(tensor.Host[float64](sums))
}

// rowBatch returns the batch, packed or padded.
func (n *network) rowBatch(docs, pad bool) model.Batch {
	rng, info := rand.New(rand.NewPCG(6, 7)), n.m.Info()
	var ids, targets, positions, document, types, classes []int32
	var numbers, samples []int64
	starts := []int32{0}
	for i, length := range rowLengths {
		sample := int64(30 + 2*i)
		for p := range length {
			doc := int32(0)
			if docs {
				doc = int32(p / 3)
			}
			ids, targets = append(ids, rng.Int32N(int32(info.Vocab))), append(targets, rng.Int32N(int32(info.Vocab+2))-2)
			positions, document, types = append(positions, int32(p)-3*doc), append(document, doc), append(types, int32(p%2))
			numbers = append(numbers, sample*rowMost+int64(p))
		}
		for p := length; pad && p < rowMost; p++ {
			ids, targets, positions = append(ids, 1), append(targets, -1), append(positions, int32(p-length))
			document, types, numbers = append(document, -1), append(types, 0), append(numbers, sample*rowMost+int64(p))
		}
		starts, samples, classes = append(starts, int32(len(ids))), append(samples, sample), append(classes, int32(i%max(1, info.Labels))-int32(i/3))
	}
	put := func(v []int32) *tensor.Tensor {
		x := n.b.New(tensor.Workspace, tensor.I32, len(v))
		copy(tensor.Host[int32](x), v)
		return x
	}
	long := func(v []int64) *tensor.Tensor {
		x := n.b.New(tensor.Workspace, tensor.I64, len(v))
		copy(tensor.Host[int64](x), v)
		return x
	}
	b := model.Batch{
		IDs: put(ids), Targets: put(targets), Positions: put(positions), Types: put(types), Starts: put(starts), MaxSeqLen: rowMost,
		TokenKeys: long(numbers), SampleKeys: long(samples), Seed: 9,
	}
	if docs || pad {
		b.Docs = put(document)
	}
	if info.Task == model.Classify {
		b.Classes = put(classes)
	}
	return b
}
