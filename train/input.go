package train

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"trireme/checkpoint/safetensors"
	"trireme/model"
	"trireme/parallel"
	"trireme/tensor"
)

// InputError is a mistake in what a run was given: its configuration, or files that it names.
// Another try with the same input ends in the same way.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

func (e *InputError) Unwrap() error { return e.Err }

// input marks an error as the input's, unless it is the machine's: a full disk, or a stop.
// nil stays nil.
func input(err error) error {
	for _, other := range []error{nil, context.Canceled, context.DeadlineExceeded, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE} {
		if errors.Is(err, other) {
			return err
		}
	}
	return &InputError{err}
}

// fits checks that files hold every tensor of a model, in its shape.
func fits(m model.Model, files *safetensors.Files) error {
	for _, p := range model.Params(m) {
		info, ok := files.Find(p.Name)
		switch {
		case !ok:
			return fmt.Errorf("train: %s has no tensor %s, which the model needs", files.Name(), p.Name)
		case !tensor.Shape(info.Shape).Equal(p.Shape):
			return fmt.Errorf("train: %s: %s is %v, config.json makes it %v", files.Name(), p.Name, info.Shape, p.Shape)
		}
	}
	return nil
}

// loadWeights reads this rank's parts of all parameters from a model's files, which fit.
func loadWeights(e *parallel.Engine, files *safetensors.Files) error {
	for _, s := range e.HeldParams() {
		if err := files.ReadAs(s.Name, s.DType, s.First, s.Count, tensor.HostBytes(s.Data)); err != nil {
			return err
		}
	}
	return nil
}
