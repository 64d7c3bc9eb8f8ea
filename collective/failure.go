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
	Text  string
	cause error // on the rank that reported it
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

// maxFailure bounds a failure that travels.
const maxFailure = 2048

// Encode writes a failure as it travels between processes, at most 2 KiB long.
func (f *Failure) Encode() []byte {
	kind := 0
	for i, k := range failureKinds {
		if k == f.Kind {
			kind = i
		}
	}
	b := binary.LittleEndian.AppendUint32([]byte{byte(kind)}, uint32(f.Rank))
	return append(b, f.Text[:min(len(f.Text), maxFailure-5)]...)
}

// DecodeFailure reads what Encode wrote.
func DecodeFailure(b []byte) (*Failure, error) {
	if len(b) < 5 || len(b) > maxFailure || int(b[0]) >= len(failureKinds) {
		return nil, errors.New("collective: not a failure")
	}
	return &Failure{Kind: failureKinds[b[0]], Rank: int(int32(binary.LittleEndian.Uint32(b[1:]))), Text: string(b[5:])}, nil
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
	return &Failure{Kind: ErrAborted, Rank: rank, Text: cause.Error(), cause: cause}
}

// Fault holds a world's failure on one rank. The first wins. It is safe for concurrent use.
type Fault struct {
	mu   sync.Mutex
	done chan struct{}
	why  *Failure
}

// NewFault is a fault that has not happened.
func NewFault() *Fault { return &Fault{done: make(chan struct{})} }

// Raise records f, and says whether it was the first.
func (t *Fault) Raise(f *Failure) bool {
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
func (t *Fault) Done() <-chan struct{} { return t.done }

// Failure is the first failure, or nil.
func (t *Fault) Failure() *Failure {
	select {
	case <-t.done:
		return t.why
	default:
		return nil
	}
}
