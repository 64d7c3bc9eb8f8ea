package monitor

// Resident is the memory of this process as the operating system counts it, in bytes.
type Resident struct {
	Now    int64 // in memory at present
	Peak   int64 // the most ever
	Shared int64 // the part of Now that is shared memory; other processes may count it too. 0 if unknown.
}
