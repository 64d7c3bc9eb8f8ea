//go:build !etcd

package etcdstore

import (
	"context"
	"errors"

	"trireme/fault"
	"trireme/internal/cluster/store"
)

// Enabled reports whether the program was built with the tag etcd.
const Enabled = false

// Connect returns an error: this program was built without the tag etcd.
func Connect(context.Context, []string, string, func(string) (string, bool)) (store.Store, error) {
	return nil, fault.Try(errors.New("--rdzv-backend etcd: this program was built without etcd"), "go build -tags etcd ./cmd/trireme, or no --rdzv-backend: the launchers have a store of their own")
}
