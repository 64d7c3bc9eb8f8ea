package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// What a Failure can be, for errors.Is.
var (
	ErrAborted  = errors.New("collective: aborted")
	ErrMismatch = errors.New("collective: ranks issued different operations")
	ErrTimeout  = errors.New("collective: timed out")
	ErrPeerLost = errors.New("collective: a rank is gone")
	ErrClosed   = errors.New("collective: the world is closed")
)

var failureKinds = [...]error{ErrAborted, ErrMismatch, ErrTimeout, ErrPeerLost, ErrClosed}

// Failure is why a world ended: the first cause, and the rank that reported it.
type Failure struct {
	Kind  error // one of the errors above
	Rank  int   // that reported it
	Lost  []int // ranks that are lost, stopped or late: the ones to blame, if others are
	Text  string
	cause error // on the rank that reported it
}

// Culprit is the first rank to blame; false where none is known, or has failed and says so itself.
func (f *Failure) Culprit() (rank int, ok bool) {
	if len(f.Lost) == 0 {
		return -1, false
	}
	return f.Lost[0], true
}

func (f *Failure) Error() string {
	if f.Kind == ErrAborted {
		return fmt.Sprintf("aborted by rank %d: %s", f.Rank, f.Text)
	}
	return f.Text
}

// Unwrap gives the kind, and the cause itself on the rank where it arose.
func (f *Failure) Unwrap() []error {
	if f.cause != nil {
		return []error{f.Kind, f.cause}
	}
	return []error{f.Kind}
}

// Bounds of a failure that travels.
const (
	maxFailure = 2048
	maxLost    = 16 // of Lost
)

// Encode writes a failure as it travels between processes, at most 2 KiB long.
func (f *Failure) Encode() []byte {
	kind := 0
	for i, k := range failureKinds {
		if k == f.Kind {
			kind = i
		}
	}
	lost := f.Lost[:min(len(f.Lost), maxLost)]
	b := append(binary.LittleEndian.AppendUint32([]byte{byte(kind)}, uint32(f.Rank)), byte(len(lost)))
	for _, r := range lost {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return append(b, f.Text[:min(len(f.Text), maxFailure-len(b))]...)
}

// DecodeFailure reads what Encode wrote.
func DecodeFailure(b []byte) (*Failure, error) {
	if len(b) < 6 || len(b) > maxFailure || int(b[0]) >= len(failureKinds) || b[5] > maxLost || len(b) < 6+4*int(b[5]) {
		return nil, errors.New("collective: not a failure")
	}
	f := &Failure{Kind: failureKinds[b[0]], Rank: int(int32(binary.LittleEndian.Uint32(b[1:])))}
	lost, text := b[6:][:4*int(b[5])], b[6+4*int(b[5]):]
	for ; len(lost) > 0; lost = lost[4:] {
		f.Lost = append(f.Lost, int(int32(binary.LittleEndian.Uint32(lost))))
	}
	f.Text = string(text)
	return f, nil
}

// asFailure makes cause a failure reported by rank, unless it is one already.
func asFailure(cause error, rank int) *Failure {
	var f *Failure
	if errors.As(cause, &f) {
		return f
	}
	if cause == nil {
		cause = errors.New("no cause given")
	}
	f = &Failure{Kind: ErrAborted, Rank: rank, Text: cause.Error(), cause: cause}
	var other interface{ Culprit() (int, bool) }
	if errors.As(cause, &other) {
		if culprit, ok := other.Culprit(); ok {
			f.Kind, f.Lost = ErrPeerLost, []int{culprit}
		}
	}
	return f
}

// FailureOnce holds a world's failure on one rank. The first wins. It is safe for concurrent use.
type FailureOnce struct {
	mu   sync.Mutex
	done chan struct{}
	why  *Failure
}

// NewFailureOnce is a fault that has not happened.
func NewFailureOnce() *FailureOnce { return &FailureOnce{done: make(chan struct{})} }

// Set records f, and says whether it was the first.
func (t *FailureOnce) Set(f *Failure) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why != nil {
		return false
	}
	t.why = f
	close(t.done)
	return true
}

// Done is closed when the world has failed.
func (t *FailureOnce) Done() <-chan struct{} { return t.done }

// Get is the first failure, or nil.
func (t *FailureOnce) Get() *Failure {
	select {
	case <-t.done:
		return t.why
	default:
		return nil
	}
}
