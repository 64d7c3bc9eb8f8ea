package tracefile

// The fields of Perfetto's messages that this package writes and reads, by
// https://perfetto.dev/docs/reference/trace-packet-proto.
const (
	tracePacket = 1 // of Trace

	packetClockSnapshot = 6
	packetTimestamp     = 8
	packetSequence      = 10
	packetTrackEvent    = 11
	packetInterned      = 12
	packetSequenceFlags = 13
	packetDefaults      = 59
	packetTrack         = 60
	defaultsClock       = 58
	sequenceCleared     = 1
	sequenceNeeds       = 2
	clockMonotonic      = 3
	clockRealtime       = 1
	snapshotClock       = 1
	snapshotPrimary     = 2
	clockID             = 1
	clockTime           = 2
	trackUUID           = 1
	trackName           = 2
	trackProcess        = 3
	trackParent         = 5
	trackOrder          = 11 // of children
	trackRank           = 12 // among siblings
	orderExplicit       = 3
	processPID          = 1
	processName         = 6
	processSort         = 3
	eventCategory       = 3
	eventAnnotation     = 4
	eventType           = 9
	eventName           = 10
	eventTrack          = 11
	eventFlow           = 47
	eventLastFlow       = 48
	eventBegin          = 1
	eventEnd            = 2
	eventInstant        = 3
	annotationName      = 1
	annotationUint      = 3
	annotationInt       = 4
	annotationText      = 6
	annotationString    = 17
	internedCategory    = 1
	internedName        = 2
	internedAnnotation  = 3
	internedString      = 29
	internedID          = 1
	internedText        = 2
)

// Categories of events that are not spans.
const (
	categoryRank = "rank" // an instant: the rank's fields
	categoryHeld = "held" // the parts of a collective before and after its last arrival
)

// The names of annotations, which are those of the arguments in Chrome's JSON too.
const (
	argStep  = "step"
	argMicro = "micro"
	argUnit  = "unit"
	argOp    = "op"
	argAxis  = "axis"
	argSeq   = "seq"
	argBytes = "bytes"
	argReady = "ready_ns"

	argRank        = "rank"
	argHost        = "host"
	argPID         = "pid"
	argOffset      = "clock_offset_ns"
	argUncertainty = "clock_uncertainty_ns"
	argDropped     = "dropped_spans"
	argGroups      = "groups"
	argForeign     = "foreign"
	argWall        = "wall_ns"
)
