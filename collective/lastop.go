package collective

import (
	"fmt"
	"time"
)

// OpState is where an operation stands.
type OpState uint8

// The states.
const (
	Running OpState = iota
	Finished
)

// LastOp is the last thing that a rank did, as other ranks can see it. It holds no pointers.
type LastOp struct {
	Header
	Unix     int64 // nanoseconds
	State    OpState
	GroupLen uint8
	Group    [32]byte
}

// String is for people: all_gather #12 of 4096 float32 (layer 3) of group shard, finished 3.1s ago.
func (n *LastOp) String() string {
	if n.Unix == 0 {
		return "nothing yet"
	}
	age := time.Since(time.Unix(0, n.Unix)).Round(time.Millisecond)
	s := fmt.Sprintf("%v of group %s, ", &n.Header, n.Group[:min(int(n.GroupLen), len(n.Group))])
	if n.State == Finished {
		return s + fmt.Sprintf("finished %v ago", age)
	}
	return s + fmt.Sprintf("running for %v", age)
}
