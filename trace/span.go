package trace

// Stream names the goroutines that a span belongs to. Spans of Compute are nested or follow each other; those of
// other streams run beside it.
type Stream uint8

// The streams.
const (
	Compute Stream = iota // the goroutine that trains
	Comm                  // collectives, one at a time
	Loader                // the goroutines that read and tokenize
	Disk                  // the goroutines that read and write offloaded state
	numStreams
)

var streamNames = [numStreams]string{"compute", "comm", "loader", "disk"}

func (s Stream) String() string {
	if s >= numStreams {
		return "unknown"
	}
	return streamNames[s]
}

// Kind is the kind of a span's work.
type Kind uint8

// The kinds. Those of collectives are named by Span.Op too.
const (
	Other         Kind = iota
	Step               // a training step, from the request for its batch to its result
	Data               // compute: waits for a batch; loader: reads rows
	Tokenize           // the loader encodes rows
	Forward            // a unit
	Backward           // a unit
	Recompute          // a unit's second forward
	AllGather          // comm
	ReduceScatter      // comm
	AllReduce          // comm
	AllToAll           // comm
	Send               // comm
	Recv               // comm
	Barrier            // comm
	Wait               // compute waits for communication: Unit, Axis and Op name the operation
	Optimizer          // the update
	Publish            // starts sending new parameters
	Upload             // a micro-batch to the device
	Offload            // compute: waits for a file; disk: reads or writes it
	Checkpoint         // saves a checkpoint
	Evaluation         // an evaluation between steps
	Compile            // a program is compiled
	Program            // a compiled program runs: the host waits for its results
	numKinds
)

var kindNames = [numKinds]string{
	"other", "step", "data", "tokenize", "forward", "backward", "recompute", "all_gather", "reduce_scatter", "all_reduce",
	"all_to_all", "send", "recv", "barrier", "wait", "optimizer", "publish", "upload", "offload", "checkpoint",
	"evaluation", "compile", "program",
}

func (k Kind) String() string {
	if k >= numKinds {
		return "unknown"
	}
	return kindNames[k]
}

// Collective reports whether k is a collective or a message.
func (k Kind) Collective() bool { return k >= AllGather && k <= Barrier }

// Span is a period of a rank's time.
type Span struct {
	Start, End int64 // nanoseconds of Now's clock
	// Ready is when the last rank of the group had reached the collective: until then this rank waited for others.
	// 0 is unknown.
	Ready  int64
	Step   int64 // from 1; 0: before the first
	Micro  int32 // micro-batch of the step, from 0
	Stream Stream
	Kind   Kind
	Unit   string // the unit of the model; of a collective, what it is for
	Axis   string // the group of ranks of a collective, or of the one that Wait waits for
	Op     string // the operation that Wait waits for, or a detail: a file's name
	Seq    uint64 // a collective's sequence number in its group, the same on all its ranks
	Bytes  int64  // that a collective transfers or reduces, unsharded; that a file's operation moves
}

// Seconds returns the span's length.
func (s Span) Seconds() float64 { return float64(s.End-s.Start) / 1e9 }
