package data

// Ignored is the label or target of a position without loss, PyTorch's ignore_index.
const Ignored int32 = -100

// Row is one sequence. The slices have equal length; Dataset.Row overwrites them.
type Row struct {
	InputIDs []int32
	Labels   []int32 // as in Hugging Face: the token at this position, or Ignored
	Docs     []int32 // document of each position, -1 where attention_mask is 0; empty: one document
	Class    int32   // class label of the row, or Ignored
	Types    []int32 // token_type_ids; empty: all 0
}

// Info describes all rows of a dataset.
type Info struct {
	Length  int   // tokens in the longest row
	Tokens  int64 // tokens in all rows
	MaxID   int32 // largest token id; -1: unknown
	Docs    bool  // rows have Docs
	Classes bool  // rows have Class
	Types   bool  // rows have Types
	Labels  bool  // rows have labels of their own; else every token is a label

	// Counts for reports.
	LabelCount int64 // label tokens, or rows with a class label
	Truncated  int   // rows shortened to sequence_length
	Skipped    int   // rows of the files without labels
}

// Dataset is a list of rows. Methods are safe for concurrent use.
type Dataset interface {
	// Len is the number of rows.
	Len() int
	// Row fills r with row i, 0 <= i < Len.
	Row(i int, r *Row) error
	// Tokens returns the length of row i without reading it.
	Tokens(i int) int
	// Where returns the origin of row i for messages: file and line.
	Where(i int) string
	Info() Info
	// Close releases files and mappings. Rows must not be read after it.
	Close() error
}

// prefetcher is a Dataset on the disk. prefetch starts to read row i and does not wait: the rows of a batch,
// scattered over a file, are read at the same time.
type prefetcher interface{ prefetch(i int) error }

var (
	_ prefetcher = (*packedText)(nil)
	_ prefetcher = (*documents)(nil)
	_ prefetcher = (*packedDocuments)(nil)
	_ prefetcher = (*subset)(nil)
	_ prefetcher = (*concat)(nil)
)

// prefetch prefetches row i of any Dataset.
func prefetch(d Dataset, i int) error {
	if p, ok := d.(prefetcher); ok {
		return p.prefetch(i)
	}
	return nil
}

// Split partitions d by rows: about fraction of them, evenly spaced, for evaluation and the rest
// for training, both in order. Closing a part does not close d. A packed document may span both
// parts.
func Split(d Dataset, fraction float64) (train, eval Dataset) {
	var t, e []int32
	for i := range d.Len() {
		if int64(float64(i+1)*fraction) > int64(float64(i)*fraction) {
			e = append(e, int32(i))
		} else {
			t = append(t, int32(i))
		}
	}
	return &subset{d, t}, &subset{d, e}
}

// subset is a selection of rows of another dataset.
type subset struct {
	of   Dataset
	rows []int32
}

var _ Dataset = (*subset)(nil)

func (s *subset) Len() int                { return len(s.rows) }
func (s *subset) Row(i int, r *Row) error { return s.of.Row(int(s.rows[i]), r) }
func (s *subset) Tokens(i int) int        { return s.of.Tokens(int(s.rows[i])) }
func (s *subset) Where(i int) string      { return s.of.Where(int(s.rows[i])) }
func (s *subset) Close() error            { return nil }
func (s *subset) prefetch(i int) error    { return prefetch(s.of, int(s.rows[i])) }

func (s *subset) Info() Info {
	info := s.of.Info()
	if n := s.of.Len(); n > 0 {
		part := float64(len(s.rows)) / float64(n)
		info.Tokens = int64(float64(info.Tokens) * part)
		info.LabelCount = int64(float64(info.LabelCount) * part)
		info.Truncated = int(float64(info.Truncated) * part)
	}
	return info
}
