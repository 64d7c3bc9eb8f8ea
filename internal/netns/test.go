package netns

import (
	"os"
	"testing"
)

// New makes n hosts for a test and removes them at its end. Where it cannot it skips the test, or fails it
// if CLUSTERTEST_NO_SKIP is set.
func New(t testing.TB, n int) *Net {
	t.Helper()
	m, err := Make(n)
	if err != nil {
		if os.Getenv("CLUSTERTEST_NO_SKIP") != "" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED: ", err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}
