//go:build !linux

package shm

import (
	"context"
	"errors"

	"trireme/collective"
)

// Open fails: only Linux has what this transport needs.
func Open(ctx context.Context, cfg Config) (collective.World, error) {
	return nil, errors.New("collective/shm: shared memory between ranks needs Linux; tcp will be used")
}
