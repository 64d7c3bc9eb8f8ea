//go:build !linux

package shm

import (
	"context"
	"errors"

	"trireme/collective"
)

// Open fails: this transport needs Linux.
func Open(ctx context.Context, cfg Config) (collective.World, error) {
	return nil, errors.New("collective/shm: needs Linux; tcp is used instead")
}

// Connect fails, as Open does.
func Connect(ctx context.Context, cfg Config, failure *collective.FailureOnce, failed func(*collective.Failure)) (collective.Transport, error) {
	_, err := Open(ctx, cfg)
	return nil, err
}
