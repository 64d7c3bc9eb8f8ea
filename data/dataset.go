package data

// Ignored is the label, and the target, of a position that is not counted.
const Ignored int32 = -100

// Row is one sequence. Its slices have one length and belong to the row: they are
// overwritten when the row is filled again.
type Row struct {
	InputIDs []int32
	Labels   []int32 // as Hugging Face means them: the token at this position, or Ignored
	Docs     []int32 // document of each position; empty: all are one
	Class    int32   // label of the whole row; Ignored where there is none
	Types    []int32 // which text of a pair each position is of; empty: all are of one
}

// Info is what is the same for all rows of a dataset.
type Info struct {
	Length  int   // tokens of the longest row
	Tokens  int64 // tokens of all rows
	MaxID   int32 // largest token id, or -1 when unknown
	Docs    bool  // rows say which document each position belongs to
	Classes bool  // rows carry a label of the whole row
	Types   bool  // rows say which text of a pair each position is of
	Labels  bool  // rows say what is learned of them; else it is all

	// What became of the files.
	LabelCount int64 // of Tokens, those that are learned; where rows have labels, those
	Truncated  int   // rows that lost their end
	Skipped    int   // rows of the files that are left out: they hold nothing to learn
}

// Dataset is a list of rows. Its methods may be called from several goroutines at once.
type Dataset interface {
	// Len is the number of rows.
	Len() int
	// Row fills r with row i, 0 <= i < Len.
	Row(i int, r *Row) error
	// Tokens is the length of row i, found without reading it.
	Tokens(i int) int
	// Where names the place that row i came from, for messages: a file and a line.
	Where(i int) string
	Info() Info
	// Close gives back what the dataset holds; rows are not read after it.
	Close() error
}

// Split divides a dataset: about fraction of the rows, spread evenly over it, for
// evaluation, and the others for training, both in their old order. Closing either part
// does not close d. Where text is packed, a document may begin in one part and end in the
// other.
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

// subset is some rows of another dataset.
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
