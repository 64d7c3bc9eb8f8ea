// Package storetest has the tests that each implementation of store.Store passes, and the clock of simulated
// leases.
package storetest

import (
	"context"
	"testing"
	"time"

	"trireme/internal/cluster/store"
)

// Setup is a store under test.
type Setup struct {
	// Open returns a new client of the store of the test. Run closes it.
	Open func(t *testing.T) store.Store
	// TTL is the ttl of leases in the tests.
	TTL time.Duration
	// Slack is the limit of the time between the end of a ttl and the deletion of the key.
	Slack time.Duration
	// Apart states that each test has its own store: tests, which mostly wait, run at the same time.
	Apart bool
}

// Run tests an implementation. setup starts an empty store for each test.
func Run(t *testing.T, setup func(t *testing.T) Setup) {
	for name, test := range map[string]func(*testing.T, Setup){
		"entries":      testEntries,
		"keys":         testKeys,
		"linearizable": testLinearizable,
		"counter":      testCounter,
		"watch":        testWatch,
		"watch order":  testWatchOrder,
		"list":         testList,
		"lease":        testLease,
		"lease owner":  testLeaseOwner,
		"lease values": testLeaseValues,
		"barrier":      testBarrier,
		"gather":       testGather,
		"context":      testContext,
		"close":        testClose,
	} {
		t.Run(name, func(t *testing.T) {
			s := setup(t)
			if s.Apart {
				t.Parallel()
			}
			test(t, s)
		})
	}
}

func (s Setup) open(t *testing.T) store.Store {
	t.Helper()
	c := s.Open(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// limit bounds each wait of a test.
const limit = 30 * time.Second

func timeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
