package xla_test

import (
	"testing"

	"trireme/internal/backend/backendtest"
)

// Attention in several chunks of queries, forward and backward, conforms as well.
func TestChunkedAttention(t *testing.T) {
	oneGoroutine(t)
	b := open(t, 1)[0]
	b.SetChunking(1, 8)
	o := programs(t, b)
	o.Only = "attention backward/"
	var suite backendtest.Suite
	suite.Run(t, b, o)
}
