package train

import (
	"context"
	"fmt"
	"slices"

	"trireme/data"
	"trireme/model"
	"trireme/tensor"
)

// shape has the lengths that the program of a micro-batch depends on, before tensor.Bucket rounds them up.
type shape struct {
	tokens, rows int
	fewest       int // rows of the rank that has the fewest
	labels       int // tokens with a target
	ragged       int // 1 if a row is shorter than MaxLength, else 0
}

func shapeOf(m data.MicroBatch) shape {
	s := shape{tokens: len(m.InputIDs), rows: m.Rows(), fewest: m.Rows()}
	for _, target := range m.Targets {
		if target >= 0 {
			s.labels++
		}
	}
	if s.tokens < s.rows*m.MaxLength {
		s.ragged = 1
	}
	return s
}

// shapes returns the shapes of micro-batches. On a backend that compiles, ranks run one program together, so
// they take the maximums of theirs.
func (s *Stepper) shapes(ctx context.Context, micros ...data.MicroBatch) ([]shape, error) {
	all := make([]shape, len(micros))
	var most []int64
	for i, m := range micros {
		a := shapeOf(m)
		all[i] = a
		most = append(most, int64(a.tokens), int64(a.rows), -int64(a.fewest), int64(a.labels), int64(a.ragged))
	}
	if !tensor.Static(s.b) {
		return all, nil
	}
	if err := s.engine.Max(ctx, most); err != nil {
		return nil, err
	}
	for i := range all {
		v := most[5*i : 5*i+5]
		all[i] = shape{tokens: int(v[0]), rows: int(v[1]), fewest: -int(v[2]), labels: int(v[3]), ragged: int(v[4])}
	}
	return all, nil
}

// Upload copies a micro-batch to a backend; done releases it. Backends with static shapes get
// tensors padded to bucket lengths with tokens outside all rows and rows without tokens.
func Upload(b tensor.Backend, m data.MicroBatch) (batch model.Batch, done func()) {
	return upload(b, m, shapeOf(m))
}

// upload is Upload for a program of shape s.
func upload(b tensor.Backend, m data.MicroBatch, s shape) (batch model.Batch, done func()) {
	u := uploader{b: b}
	n, rows := len(m.InputIDs), m.Rows()
	size, count := tensor.Bucket(b, s.tokens, max(s.tokens, m.MaxTokens)), tensor.Bucket(b, s.rows, max(s.rows, m.MaxRows))
	if count > s.fewest { // empty rows start at a padding token
		size = tensor.Bucket(b, s.tokens+1, max(s.tokens, m.MaxTokens)+1)
	}
	batch = model.Batch{
		Labeled:    u.labeled(m, size, s.labels),
		IDs:        u.int32s(m.InputIDs, n, size, 0),
		Targets:    u.int32s(m.Targets, n, size, data.Ignored),
		Positions:  u.int32s(m.Positions, n, size, 0),
		Docs:       u.int32s(m.Docs, n, size, 0),
		Types:      u.int32s(m.Types, n, size, 0),
		Starts:     u.int32s(m.Starts, rows+1, count+1, int32(n)),
		MaxSeqLen:  m.MaxLength,
		Classes:    u.int32s(m.Classes, rows, count, data.Ignored),
		TokenKeys:  u.int64s(m.TokenKeys, n, size),
		SampleKeys: u.int64s(m.SampleKeys, rows, count),
	}
	// Other equal lengths do not count: each would be a program of its own.
	if s.ragged == 0 && size == s.tokens {
		batch.SeqLen = m.MaxLength
	}
	return batch, u.release
}

// uploader tracks the tensors it allocates.
type uploader struct {
	b    tensor.Backend
	held []*tensor.Tensor
}

// int32s uploads n numbers v, padded with fill to size; nil returns nil.
func (u *uploader) int32s(v []int32, n, size int, fill int32) *tensor.Tensor {
	if v == nil {
		return nil
	}
	if size > n {
		v = append(slices.Clone(v), slices.Repeat([]int32{fill}, size-n)...)
	}
	return u.put(tensor.I32, tensor.AsBytes(v), len(v), size)
}

func (u *uploader) int64s(v []int64, n, size int) *tensor.Tensor {
	if size > n {
		v = append(slices.Clone(v), make([]int64, size-n)...)
	}
	return u.put(tensor.I64, tensor.AsBytes(v), len(v), size)
}

func (u *uploader) put(dt tensor.DType, v []byte, has, size int) *tensor.Tensor {
	if has != size {
		panic(fmt.Sprintf("train: a micro-batch field has %d elements, want %d", has, size))
	}
	t := u.b.New(tensor.Workspace, dt, size)
	u.b.Upload(t, v)
	u.held = append(u.held, t)
	return t
}

func (u *uploader) release() {
	for _, t := range u.held {
		t.Release()
	}
}

// labeled lists the token rows that have a target, padded to size, with the number to read: a bucket
// length of count. It lists none if whole sequences have labels.
func (u *uploader) labeled(m data.MicroBatch, size, count int) model.LabeledRows {
	if m.Classes != nil || m.Targets == nil {
		return model.LabeledRows{}
	}
	rows, targets := make([]int32, 0, size), make([]int32, 0, size)
	for i, target := range m.Targets {
		if target >= 0 {
			rows, targets = append(rows, int32(i)), append(targets, target)
		}
	}
	n := len(rows)
	return model.LabeledRows{Rows: u.int32s(rows, n, size, 0), Targets: u.int32s(targets, n, size, data.Ignored), N: tensor.Bucket(u.b, count, size)}
}
