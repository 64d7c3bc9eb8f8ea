package train_test

import (
	"os"
	"testing"
)

// crossAll reports whether tests that cross lists (families, strategies, numbers of ranks, precisions) run all
// combinations. Without FULL_MATRIX=1 they run some of them, in which each pair of values occurs.
func crossAll() bool { return os.Getenv("FULL_MATRIX") == "1" }

// oneGoroutine skips a test with -short, for the race detector, if it computes on one goroutine, or on those of a test
// that runs.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: no goroutines of its own")
	}
}
