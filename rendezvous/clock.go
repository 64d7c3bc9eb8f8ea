package rendezvous

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"trireme/trace"
)

// clockRounds is the number of round trips of Clock.
const clockRounds = 9

// Clock returns what to add to a time of this process's clock (trace.Now) for that of rank 0, and the largest
// possible error: half of the shortest of a few round trips, or 0 in rank 0's namespaces, where both read one clock.
func (s *Store) Clock(ctx context.Context) (offset, uncertainty time.Duration, err error) {
	if s.server != nil || s.ch.peer.here() {
		return 0, 0, nil
	}
	return clockOffset(clockRounds, trace.Now, func() (int64, error) {
		b, err := s.call(ctx, opClock, "", nil)
		if err == nil && len(b) != 8 {
			err = fmt.Errorf("rendezvous: the clock of rank 0 has %d bytes", len(b))
		}
		if err != nil {
			return 0, err
		}
		return int64(binary.BigEndian.Uint64(b)), nil
	})
}

// clockOffset estimates the offset of another clock, which ask reads, in the middle of the shortest round trip.
func clockOffset(rounds int, now func() int64, ask func() (int64, error)) (offset, uncertainty time.Duration, err error) {
	for i := range rounds {
		sent := now()
		there, err := ask()
		if err != nil {
			return 0, 0, err
		}
		if half := time.Duration(now()-sent+1) / 2; i == 0 || half < uncertainty {
			offset, uncertainty = time.Duration(there-sent)-half, half
		}
	}
	return offset, uncertainty, nil
}
