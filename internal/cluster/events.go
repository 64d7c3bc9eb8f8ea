package cluster

import "syscall"

// event is an input of a machine.
type event any

type (
	// changed: a key below the job's prefix has a value; nil: it was deleted.
	changed struct {
		key      string
		value    []byte
		revision uint64
	}
	// reset: the watch starts over; synced: all entries that existed were sent.
	reset  struct{}
	synced struct{}
	// registered: this host has a lease. unregistered: it has not any more.
	registered   struct{ host host }
	unregistered struct{}
	// failing: a worker failed. ended: all workers of this host have ended.
	failing struct{ number, code int }
	ended   struct {
		number int
		id     string // of this host when they started
		end    end
	}
	signaled struct{ signal syscall.Signal }
	// abandoned: this launcher ends, because the store does not exist any more or its caller wishes it.
	abandoned struct {
		code int
		why  string
	}
	tick struct{}
)

// action is an output of a machine.
type action any

type (
	register struct{} // with a lease
	leave    struct{} // end the registration
	write    struct {
		key      string
		value    []byte
		revision uint64 // of the value that it replaces; 0: the key must not exist
	}
	// form writes the generation record of this host as the first host. The caller sets MasterPort if it is 0.
	form struct {
		generation generation
		revision   uint64
	}
	start struct {
		generation generation
		index      int // of this host
	}
	cancel  struct{ why string } // end the workers by SIGTERM, after a grace by SIGKILL
	forward struct{ signal syscall.Signal }
	say     struct{ text string }
	finish  struct{ result *result }
)
