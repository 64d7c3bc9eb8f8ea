package flight

import "sync/atomic"

// A state is words of 64 bits, little-endian as the processors of this program: the head, then groups, then a ring of operations. A Snapshot has
// the same form with fewer groups and operations.
const (
	magic   = 0x31544c4654495254 // TRITFLT1
	version = 1

	wMagic      = 0
	wVersion    = 1
	wRank       = 2 // rank, size << 32
	wPID        = 3 // pid, restart count << 32
	wHost       = 4 // 8 words
	wRun        = 12
	wStarted    = 16 // times are nanoseconds since 1970 on this rank's clock
	wAlive      = 17
	wEnded      = 18 // 0, or 1 + exit code
	wTicks      = 19
	wProgress   = 20 // time of the last tick
	wCPU        = 21 // CPU time of the process, nanoseconds
	wBusy       = 22 // time of the last Beat at which the process had used CPU time
	wStep       = 23
	wActivities = 24 // version of the activities: odd while they are written
	wDepth      = 25
	wLevels     = 26 // maxDepth levels
	wBegun      = 66 // operations begun
	wGroups     = 67 // groups in use
	wGroupCap   = 68
	wRingCap    = 69
	headWords   = 72

	maxDepth   = 4
	levelWords = 10 // kind, since, detail
	groupWords = 12
	opWords    = 16

	groupCap = 64
	ringCap  = 64

	maxWords = headWords + groupCap*groupWords + ringCap*opWords

	hostBytes   = 64
	runBytes    = 32
	detailBytes = 64
	nameBytes   = 32
	kindBytes   = 16
	tagBytes    = 48
)

// Words of a level.
const (
	lKind = iota
	lSince
	lDetail
)

// Words of a group.
const (
	gKey      = iota
	gFirst    // rank in the world
	gStride   // between ranks; 0: irregular
	gSize     // number of ranks
	gName     // 4 words
	gStarted  = gName + 4
	gFinished = gStarted + 1 // sequence number + 1 of the last operation of all its ranks
)

// Words of an operation.
const (
	oVersion = iota // odd while it is written
	oWhere          // group + 1, (peer + 1) << 32
	oSeq
	oCount
	oStart
	oEnd   // 0: running
	oKind  // 2 words
	oDType = oKind + 2
	oTag   = oDType + 1 // 6 words
)

// words are the words of a state, which other goroutines and processes may read.
type words []uint64

func (w words) set(i int, v uint64)        { atomic.StoreUint64(&w[i], v) }
func (w words) get(i int) uint64           { return atomic.LoadUint64(&w[i]) }
func (w words) add(i int, d uint64) uint64 { return atomic.AddUint64(&w[i], d) }

// setString stores up to n bytes of s, padded with zeros.
func (w words) setString(i, n int, s string) {
	s = s[:min(len(s), n)]
	for ; n > 0; n -= 8 {
		var v uint64
		for b := range min(8, len(s)) {
			v |= uint64(s[b]) << (8 * b)
		}
		w.set(i, v)
		i++
		s = s[min(8, len(s)):]
	}
}

func (w words) string(i, n int) string {
	var b [hostBytes]byte
	for k := range n / 8 {
		v := w.get(i + k)
		for j := range 8 {
			b[k*8+j] = byte(v >> (8 * j))
		}
	}
	return cleanName(b[:n])
}

// cleanName returns the bytes up to the first zero; others than printable ASCII and UTF-8 are replaced by "?".
func cleanName(b []byte) string {
	for i, c := range b {
		if c == 0 {
			b = b[:i]
			break
		}
	}
	out := []rune(string(b))
	for i, r := range out {
		if r < ' ' || r == 0x7f || r == 0xfffd || r >= 0x80 && r < 0xa0 {
			out[i] = '?'
		}
	}
	return string(out)
}

// bytes returns a copy of the words as little-endian bytes.
func (w words) bytes() []byte {
	b := make([]byte, 8*len(w))
	for i := range w {
		v := w.get(i)
		for j := range 8 {
			b[8*i+j] = byte(v >> (8 * j))
		}
	}
	return b
}
