package train

import (
	"context"
	"errors"
	"syscall"
)

// InputError is an error in the user's input: the configuration, or files that it names. A retry with
// the same input fails again.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

func (e *InputError) Unwrap() error { return e.Err }

// input marks an error as the input's, unless the machine caused it, for example a full disk or a stop.
// It returns nil for nil.
func input(err error) error {
	for _, other := range []error{nil, context.Canceled, context.DeadlineExceeded, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE} {
		if errors.Is(err, other) {
			return err
		}
	}
	return &InputError{err}
}
