package rendezvous

import (
	"encoding/binary"
	"errors"
)

// The kinds of a Failure, for errors.Is.
var (
	ErrLost    = errors.New("rendezvous: lost a rank")
	ErrTimeout = errors.New("rendezvous: timed out waiting for a rank")
	// ErrRefused: this rank's variables contradict rank 0's, or do not allow ranks on several machines.
	ErrRefused = errors.New("rendezvous: refused")
)

// Failure is the error of a call that waits for other ranks.
type Failure struct {
	Kind error // one of the errors above
	// Rank is the lost, stopped or late rank that caused it. -1: unknown, or it reports its failure
	// itself.
	Rank int
	Text string
	Code uint8 // exit code of a rank that failed itself; 0: unspecified
}

func (f *Failure) Error() string { return f.Text }

// Unwrap returns the kind.
func (f *Failure) Unwrap() error { return f.Kind }

// Culprit returns the root-cause rank, if known.
func (f *Failure) Culprit() (rank int, ok bool) { return f.Rank, f.Rank >= 0 }

func culpritOf(err error) int {
	var b interface{ Culprit() (int, bool) }
	if errors.As(err, &b) {
		if rank, ok := b.Culprit(); ok {
			return rank
		}
	}
	return -1
}

// encode writes rank i32, code u8 and text. The message's op gives the kind.
func (f *Failure) encode() []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(int32(f.Rank))), f.Code), f.Text...)
}

func decodeFailure(kind error, b []byte) *Failure {
	if len(b) < 5 {
		return &Failure{Kind: kind, Rank: -1, Text: "malformed failure of an unknown rank"}
	}
	return &Failure{Kind: kind, Rank: max(-1, int(int32(binary.BigEndian.Uint32(b)))), Code: b[4], Text: string(b[5:])}
}
