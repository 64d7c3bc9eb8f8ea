package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trireme/flight"
	"trireme/tensor"
	"trireme/trace"
)

// Config is the configuration common to all transports.
type Config struct {
	// Timeout is the time that a rank waits for others in one operation, and to open the world. 0 is
	// one minute.
	Timeout time.Duration
	// Recorder returns the recorder of a rank's operations, which may be nil; nil for none.
	Recorder func(rank int) *flight.Recorder
	// Trace returns the recorder of the spans of a rank's operations, which may be nil; nil for none.
	Trace func(rank int) *trace.Recorder
	// MaxDirect is the number of hosts up to which each exchanges messages with every other. More hosts
	// use trees, rings and chains, in which a host has up to log2(hosts) neighbors. 0 is 8. A rank that
	// shares no memory with others counts as a host.
	MaxDirect int
}

// Validate sets defaults and checks values.
func (c *Config) Validate() error {
	if c.Timeout < 0 {
		return fmt.Errorf("collective: timeout: %v is negative", c.Timeout)
	}
	if c.MaxDirect < 0 {
		return fmt.Errorf("collective: max direct: %d is negative", c.MaxDirect)
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.MaxDirect == 0 {
		c.MaxDirect = 8
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
	// caller's index in ranks.
	Join(id int, name string, ranks []int, me int) (Links, error)
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

// Links are a rank's connections to the others of a group.
type Links struct {
	Memory   Memory   // to ranks of this host; nil: none
	Messages Messages // to ranks of other hosts; nil: none
	// Hosts has the group ranks of each host, if there are several and ranks of one share memory. The
	// lists together are 0, 1, 2, ...: chains of sums pass the hosts in this order.
	Hosts [][]int
}

// MaxStripes is the limit of Messages.Stripes.
const MaxStripes = 8

// Memory is a group, or its ranks on one host, that can read each other's memory. Ranks are numbered
// within the Memory, in ascending order. Each rank has a ChannelState per channel: 0 for the group's
// operations, 1+p for sends to p, 1+size+p for receives from p, and MaxStripes from 1+2*size on, in which
// a rank publishes its progress with data from other hosts.
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

// Messages passes messages between ranks of a group. Ranks are group ranks. A pair of ranks has, in each
// direction, 3*Stripes() ordered streams of messages: Stripes() for the group's operations, then Stripes()
// for first terms of sums, then Stripes() for Send and Recv. Large operations are spread over the stripes.
//
// The receiver of a message knows its label, which a transport that authenticates messages includes:
// another message then fails. Write and Read block; they fail when the world fails or the peer is gone, and
// with os.ErrDeadlineExceeded when no byte moves for the time-out. One goroutine may write and one read
// a stream at a time. Neither keeps label or b.
type Messages interface {
	Stripes() int // 1 to MaxStripes, the same on all ranks
	Write(to, stream int, label, b []byte) error
	// Read reads a message of up to len(b) bytes and returns its length.
	Read(from, stream int, label, b []byte) (int, error)
	// Reached publishes that the caller has reached the group's operation seq. Joined asks whether a rank
	// has, for messages about a time-out. A rank that does not answer has not.
	Reached(seq uint64)
	Joined(rank int, seq uint64) bool
}

var errExpose = errors.New("collective: a rank exposed memory of the wrong size")
