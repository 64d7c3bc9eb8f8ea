package device

import "trireme/internal/pjrt"

// Process is this process's part of a job, for devices that ranks of a process share. The zero value is a
// job of one rank.
type Process struct {
	Index, Count int // of this process among those of the job; Count 0 is 1
	Rank, Ranks  int // of the calling rank among those of this process; Ranks 0 is 1
	Local        int // local rank of the process's first rank, which uses the machine's device of this index
	// Store has the keys by which the processes of a job find each other's devices; nil if Count is 1.
	Store KeyValue
}

// KeyValue is a store that all processes of a job share. Several threads call it at once.
type KeyValue = pjrt.KeyValue
