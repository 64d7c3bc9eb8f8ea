package rendezvous

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// TestClockOffset estimates a clock that is an hour ahead, over a network with another delay each way.
func TestClockOffset(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := int64(12345)
	offset, uncertainty, err := clockOffset(clockRounds, func() int64 { return now }, func() (int64, error) {
		now += 50_000 + random.Int64N(1_000_000)
		there := now + int64(time.Hour)
		now += 50_000 + random.Int64N(1_000_000)
		return there, nil
	})
	if d := (offset - time.Hour).Abs(); err != nil || d > uncertainty || uncertainty > time.Millisecond {
		t.Errorf("offset %v, uncertainty %v, %v", offset, uncertainty, err)
	}
	lost := errors.New("lost")
	if _, _, err := clockOffset(1, func() int64 { return 0 }, func() (int64, error) { return 0, lost }); !errors.Is(err, lost) {
		t.Errorf("error %v", err)
	}
}
