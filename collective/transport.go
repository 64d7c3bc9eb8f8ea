package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trireme/tensor"
)

// Config is common to all worlds.
type Config struct {
	// Timeout is how long a rank waits for others in one operation, and in joining. 0 is one minute.
	Timeout time.Duration
}

// Validate fills in defaults and checks the rest.
func (c *Config) Validate() error {
	if c.Timeout < 0 {
		return fmt.Errorf("collective: timeout: %v is negative", c.Timeout)
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return nil
}

// Bootstrap lets the processes of a job tell each other where they are before they are
// connected (package rendezvous).
type Bootstrap interface {
	// AllGather returns what every rank brought under key, in the order of ranks, when all
	// have. A key is used once.
	AllGather(ctx context.Context, key string, mine []byte) ([][]byte, error)
}

// Transport connects one rank to the others of its world. It is used by a World only.
type Transport interface {
	// Join connects the ranks of a group, as the caller sees it. id numbers the groups of the
	// world. One of the results is nil. Ranks are of the world, me is the caller's place among
	// them.
	Join(id int, name string, ranks []int, me int) (Memory, Messages, error)
	// Arena is World.Arena.
	Arena() *tensor.Arena
	// SetLastOp tells the others what the caller is doing; Doing is what is known of a rank.
	SetLastOp(n *LastOp)
	LastOp(rank int) string
	// Closed says whether a rank has closed its world: it will post nothing more.
	Closed(rank int) bool
	// Failure is raised by the transport when a rank is lost, or has raised its own.
	Failure() *FailureOnce
	// SendFailure tells every rank that can be reached of a failure.
	SendFailure(f *Failure)
	// Close ends the caller's part. A rank that closes in order is not a lost one to those
	// that need nothing more of it.
	Close() error
}

// Slot is one posted operation in memory that ranks share.
type Slot struct {
	Header   Header
	Off, Len int64 // of the exposed bytes, where the transport speaks in offsets
	Data     [SlotDataSize]byte
}

// SlotDataSize is the largest contribution that travels in a Slot.
const SlotDataSize = 4096

// ChannelState is one rank's part in the operations of a channel. Clock counts four for an operation:
// 1 posted, 2 half way, 3 done. A rank posts operation s+2 only when all others have posted
// s+1, and so are done with s: two slots are enough. Cells may lie in shared memory.
type ChannelState struct {
	Clock   uint32 // atomic
	Waiters uint32 // atomic: how many sleep until Clock changes
	_       [56]byte
	Slots   [2]Slot
}

// Memory is a group whose ranks can read each other's memory. Ranks are those of the group.
// A rank has a cell for each channel: 0 for the group's operations, 1+p for what it sends to
// p, 1+size+p for what it receives from p.
type Memory interface {
	State(rank, ch int) *ChannelState
	// Expose shows b, or a copy of it, to the others as the bytes of a slot, and returns what
	// they see. Conceal ends that.
	Expose(ch, slot int, b []byte) []byte
	Unexpose(ch, slot int)
	// Exposed is what a rank shows; writing to it is not allowed.
	Exposed(rank, ch, slot int) ([]byte, error)
	// Wait returns when a cell's clock is not seen any more, or after d, or early.
	Wait(rank, ch int, seen uint32, d time.Duration)
	// Wake ends the sleep of those that wait for the caller's cell.
	Wake(ch int)
}

// Messages is a group whose ranks exchange bytes. Ranks are those of the group; what one
// rank writes to another arrives in order within a line: 0 for the group's operations, 1
// for Send and Recv. Reads and writes block. They end with an error when the world fails or
// the peer is gone, and with one that is os.ErrDeadlineExceeded when no byte has moved for
// the time-out. One goroutine reads and one writes a line at a time.
type Messages interface {
	Write(to, line int, b []byte) error
	Read(from, line int, b []byte) error
	// Arrived says whether there is something to be read.
	Arrived(from, line int) bool
}

var errExpose = errors.New("collective: a rank shows memory that it does not have")
