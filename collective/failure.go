package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// The kinds of a Failure, for errors.Is.
var (
	ErrAborted  = errors.New("collective: aborted")
	ErrMismatch = errors.New("collective: ranks called different operations")
	ErrTimeout  = errors.New("collective: timed out")
	ErrPeerLost = errors.New("collective: lost a rank")
	ErrClosed   = errors.New("collective: the world is closed")
)

var failureKinds = [...]error{ErrAborted, ErrMismatch, ErrTimeout, ErrPeerLost, ErrClosed}

// Failure is the first failure of a world.
type Failure struct {
	Kind  error // one of the errors above
	Rank  int   // the rank that reported it
	Lost  []int // the lost, stopped or late ranks that caused it, if known
	Text  string
	cause error // only on the rank that reported it
}

// Culprit returns the root-cause rank; false if it is unknown or reports its failure itself.
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

// Unwrap returns the kind and, on the rank that reported the failure, its cause.
func (f *Failure) Unwrap() []error {
	if f.cause != nil {
		return []error{f.Kind, f.cause}
	}
	return []error{f.Kind}
}

// Limits of an encoded failure.
const (
	maxFailure = 2048 // bytes
	maxLost    = 16   // length of Lost
)

// Encode encodes a failure for other processes, in up to 2 KiB.
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

// DecodeFailure decodes the result of Encode.
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

// asFailure returns cause as a Failure reported by rank, unless it wraps one.
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

// FailureOnce holds the first failure of a world on one rank. It is safe for concurrent use.
type FailureOnce struct {
	mu   sync.Mutex
	done chan struct{}
	why  *Failure
}

// NewFailureOnce returns a FailureOnce without a failure.
func NewFailureOnce() *FailureOnce { return &FailureOnce{done: make(chan struct{})} }

// Set records f if it is the first, and reports whether it is.
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

// Done is closed when the world fails.
func (t *FailureOnce) Done() <-chan struct{} { return t.done }

// Get returns the first failure, or nil.
func (t *FailureOnce) Get() *Failure {
	select {
	case <-t.done:
		return t.why
	default:
		return nil
	}
}
