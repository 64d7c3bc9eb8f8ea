package xla_test

import (
	"testing"

	"trireme/internal/backend/backendtest"
)

// Attention in several chunks of queries, forward and backward, conforms as well.
func TestChunkedAttention(t *testing.T) {
	b := open(t, 1)[0]
	b.SetChunking(1, 8)
	b.Alone = func(f func() error) error { return b.Compile(false, f) }
	var suite backendtest.Suite
	suite.Run(t, b, backendtest.Options{Only: "attention backward/"})
}
