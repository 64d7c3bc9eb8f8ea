package netns

import (
	"testing"

	"trireme/internal/clustertest"
)

// New makes n hosts for a test and removes them at its end. Where it cannot it skips the test (clustertest.Skip).
func New(t testing.TB, n int) *Net {
	t.Helper()
	m, err := Make(n)
	if err != nil {
		clustertest.Skip(t, err.Error())
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}
