package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/go-json-experiment/json"

	"trireme/internal/objectstore"
)

// ProcessGroup exchanges small messages between ranks. All ranks call AllGatherBytes the same
// number of times. It blocks until all have called it and returns every rank's message, in rank
// order.
type ProcessGroup interface {
	Rank() int
	Size() int
	AllGatherBytes(ctx context.Context, message []byte) ([][]byte, error)
}

// SingleProcess is the ProcessGroup of one rank.
type SingleProcess struct{}

// Rank returns 0.
func (SingleProcess) Rank() int { return 0 }

// Size returns 1.
func (SingleProcess) Size() int { return 1 }

// AllGatherBytes returns the message.
func (SingleProcess) AllGatherBytes(_ context.Context, message []byte) ([][]byte, error) {
	return [][]byte{message}, nil
}

// ErrCorrupt is wrapped by errors about stored bytes that differ from the saved ones.
var ErrCorrupt = errors.New("checkpoint is damaged")

// alsoFailed returns err and the error of what followed it, in one line; either may be nil.
func alsoFailed(err, then error) error {
	if err == nil || then == nil {
		return cmp.Or(err, then)
	}
	return fmt.Errorf("%w; %w", err, then)
}

// agree exchanges one value per rank. If any rank passes an error, every rank returns the error of
// the lowest such rank, one with errAborted only if there is no other.
func agree[T any](ctx context.Context, a ProcessGroup, value T, failure error) ([]T, error) {
	type message struct {
		Value   T      `json:"value"`
		Failed  bool   `json:"failed,omitzero"`
		Aborted bool   `json:"aborted,omitzero"`
		Text    string `json:"text,omitzero"`
		Corrupt bool   `json:"corrupt,omitzero"`
		NoSpace bool   `json:"no_space,omitzero"`
		NaN     bool   `json:"not_finite,omitzero"`
		Newer   bool   `json:"newer,omitzero"`
		Silent  bool   `json:"unavailable,omitzero"`
	}
	m := message{Value: value}
	if failure != nil {
		m.Failed, m.Text = true, failure.Error()
		m.Corrupt, m.NoSpace = errors.Is(failure, ErrCorrupt), errors.Is(failure, syscall.ENOSPC)
		m.NaN, m.Aborted = errors.Is(failure, ErrNotFinite), errors.Is(failure, errAborted)
		m.Newer, m.Silent = errors.Is(failure, errNewer), unavailable(failure)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: encode a message to the other ranks: %w", err)
	}
	all, err := a.AllGatherBytes(ctx, b)
	if err != nil {
		return nil, alsoFailed(failure, fmt.Errorf("checkpoint: exchange messages with the other ranks: %w", err))
	}
	if len(all) != a.Size() {
		return nil, fmt.Errorf("checkpoint: %d of %d ranks answered", len(all), a.Size())
	}
	values := make([]T, len(all))
	var first *rankError
	for rank, b := range all {
		var m message
		if err := json.Unmarshal(b, &m); err != nil {
			return nil, fmt.Errorf("checkpoint: invalid message from rank %d: %w", rank, err)
		}
		values[rank] = m.Value
		switch {
		case !m.Failed:
		case first != nil && m.Aborted:
		case first != nil && !first.aborted:
			first.others++
		default:
			first = &rankError{rank: rank, world: a.Size(), text: m.Text, aborted: m.Aborted}
			if rank == a.Rank() {
				first.cause = failure
			} else if m.Corrupt {
				first.cause = ErrCorrupt
			} else if m.NoSpace {
				first.cause = syscall.ENOSPC
			} else if m.NaN {
				first.cause = ErrNotFinite
			} else if m.Newer {
				first.cause = errNewer
			} else if m.Silent {
				first.cause = objectstore.ErrUnavailable
			}
		}
	}
	if first != nil {
		return nil, first
	}
	return values, nil
}

// rankError is one rank's error as all ranks report it.
type rankError struct {
	rank, world, others int
	text                string
	aborted             bool  // because another rank failed
	cause               error // on other ranks only the sentinel that callers test for
}

func (e *rankError) Error() string {
	switch {
	case e.world == 1:
		return e.text
	case e.others == 0:
		return fmt.Sprintf("%s (on rank %d)", e.text, e.rank)
	}
	return fmt.Sprintf("%s (on rank %d; %d others failed too)", e.text, e.rank, e.others)
}

func (e *rankError) Unwrap() error { return e.cause }
