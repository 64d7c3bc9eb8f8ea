package collective

import (
	"fmt"
	"time"
)

// OpState is the state of an operation.
type OpState uint8

// The states.
const (
	Running OpState = iota
	Finished
)

// LastOp is a rank's last operation, as other ranks see it. It has no pointers.
type LastOp struct {
	Header
	Unix     int64 // nanoseconds
	State    OpState
	GroupLen uint8
	Group    [32]byte
}

// String formats it for messages: all_gather #12 of 4096 float32 (layer 3) in group shard, finished 3.1s ago.
func (n *LastOp) String() string {
	if n.Unix == 0 {
		return "none"
	}
	age := time.Since(time.Unix(0, n.Unix)).Round(time.Millisecond)
	s := fmt.Sprintf("%v in group %s, ", &n.Header, n.Group[:min(int(n.GroupLen), len(n.Group))])
	if n.State == Finished {
		return s + fmt.Sprintf("finished %v ago", age)
	}
	return s + fmt.Sprintf("running for %v", age)
}
