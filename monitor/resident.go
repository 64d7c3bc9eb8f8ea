package monitor

// Resident is this process's resident memory as the operating system counts it, in bytes.
type Resident struct {
	Now    int64 // current
	Peak   int64 // maximum so far
	Shared int64 // shared memory in Now, which other processes may count too; 0 if unknown
}
