package rendezvous

import (
	"encoding/binary"
	"errors"
)

// The kinds of a Failure, for errors.Is.
var (
	ErrLost    = errors.New("rendezvous: a rank is lost")
	ErrTimeout = errors.New("rendezvous: a rank has not come in time")
	// ErrRefused says that a rank and rank 0 were started with contradicting variables.
	ErrRefused = errors.New("rendezvous: refused")
)

// Failure is why a rank no longer waits for another.
type Failure struct {
	Kind error // one of the errors above
	// Rank is the one to blame: lost, stopped or late. -1 is none, or one that failed and says why
	// itself.
	Rank int
	Text string
	Code uint8 // with which a rank that failed itself exits; 0 is none in particular
}

func (f *Failure) Error() string { return f.Text }

// Unwrap gives the kind.
func (f *Failure) Unwrap() error { return f.Kind }

// Culprit is the rank to blame, if another is.
func (f *Failure) Culprit() (rank int, ok bool) { return f.Rank, f.Rank >= 0 }

// blame is the rank that an error blames, or -1.
func blame(err error) int {
	var b interface{ Culprit() (int, bool) }
	if errors.As(err, &b) {
		if rank, ok := b.Culprit(); ok {
			return rank
		}
	}
	return -1
}

// encode writes rank i32, code u8 and text; the kind is that of the message.
func (f *Failure) encode() []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(int32(f.Rank))), f.Code), f.Text...)
}

func decodeFailure(kind error, b []byte) *Failure {
	if len(b) < 5 {
		return &Failure{Kind: kind, Rank: -1, Text: "a failure of no known rank"}
	}
	return &Failure{Kind: kind, Rank: max(-1, int(int32(binary.BigEndian.Uint32(b)))), Code: b[4], Text: string(b[5:])}
}
