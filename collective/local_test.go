package collective_test

import (
	"testing"

	"go.uber.org/goleak"

	"trireme/collective"
	"trireme/collective/collectivetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocal(t *testing.T) {
	worlds := func(t *testing.T, n int, cfg collective.Config) []collective.World {
		ws, err := collective.NewLocal(n, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return ws
	}
	collectivetest.Run(t, worlds)
	t.Run("spans", func(t *testing.T) { collectivetest.RunSpans(t, worlds, true) })
}
