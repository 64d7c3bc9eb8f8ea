package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trireme/flight"
	"trireme/tensor"
)

// Config is the configuration common to all transports.
type Config struct {
	// Timeout is the time that a rank waits for others in one operation, and to open the world. 0 is
	// one minute.
	Timeout time.Duration
	// Recorder returns the recorder of a rank's operations, which may be nil; nil for none.
	Recorder func(rank int) *flight.Recorder
}

// Validate sets defaults and checks values.
func (c *Config) Validate() error {
	if c.Timeout < 0 {
		return fmt.Errorf("collective: timeout: %v is negative", c.Timeout)
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return nil
}

// Bootstrap exchanges addresses between the ranks before they are connected (package rendezvous).
type Bootstrap interface {
	// AllGather returns every rank's value for key, in rank order, when all have called it. A key is
	// used once.
	AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error)
}

// Transport connects one rank to the others of its world. Only NewWorld's World uses it.
type Transport interface {
	// Join connects the ranks (in the world) of a group. id is the group's number in the world, me the
	// caller's index in ranks. It returns either a Memory or a Messages.
	Join(id int, name string, ranks []int, me int) (Memory, Messages, error)
	// Arena returns World.Arena.
	Arena() *tensor.Arena
	// Describe names a rank for messages: rank 1 (pid 4242 on node7).
	Describe(rank int) string
	// Closed reports whether a rank has closed its world: it posts no further operations.
	Closed(rank int) bool
	// Failure holds the world's failure. The transport sets it when a rank is lost or reports one.
	Failure() *FailureOnce
	// SendFailure sends a failure to every rank that can be reached.
	SendFailure(f *Failure)
	// Close disconnects the caller. The others do not count it as lost; their operations with it fail.
	Close() error
}

// Slot is a posted operation in shared memory.
type Slot struct {
	Header   Header
	Off, Len int64 // of the exposed bytes in the arena, if the transport has one
	Data     [SlotDataSize]byte
}

// SlotDataSize is the size of the largest contribution stored in a Slot.
const SlotDataSize = 4096

// ChannelState is one rank's state in a channel; it may be in shared memory. Clock advances by 4 for each
// operation: 1 posted, 2 summed, 3 done. A rank posts operation s+2 only after all others have posted s+1,
// and so have finished s: two slots are enough.
type ChannelState struct {
	Clock   uint32 // atomic
	Waiters uint32 // atomic: number of waiters for a change of Clock
	_       [56]byte
	Slots   [2]Slot
}

// Memory is a group whose ranks can read each other's memory. Ranks are group ranks. Each rank has a
// ChannelState per channel: 0 for the group's operations, 1+p for sends to p, 1+size+p for receives from
// p.
type Memory interface {
	State(rank, ch int) *ChannelState
	// Expose lets the others read b, or a copy, as the bytes of a slot, and returns what they read.
	// Unexpose ends that.
	Expose(ch, slot int, b []byte) []byte
	Unexpose(ch, slot int)
	// Exposed returns a rank's exposed bytes, read-only.
	Exposed(rank, ch, slot int) ([]byte, error)
	// Wait waits until the clock of a channel differs from seen, for up to d. It may return early.
	Wait(rank, ch int, seen uint32, d time.Duration)
	// Wake wakes the waiters for the caller's channel.
	Wake(ch int)
}

// Messages is a group whose ranks pass messages. Ranks are group ranks. Each pair has two ordered
// connections: conn 0 for the group's operations, conn 1 for Send and Recv. Reads and writes block; they
// fail when the world fails or the peer is gone, and with os.ErrDeadlineExceeded when no byte moves for the
// time-out. One goroutine may read and one write a connection at a time.
type Messages interface {
	Write(to, conn int, b []byte) error
	Read(from, conn int, b []byte) error
	// Arrived reports whether there are bytes to read.
	Arrived(from, conn int) bool
}

var errExpose = errors.New("collective: a rank exposed memory of the wrong size")
