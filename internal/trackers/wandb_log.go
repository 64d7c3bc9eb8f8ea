package trackers

import (
	"encoding/binary"
	"hash/crc32"
)

// wandbLog is the position in a .wandb file: a log of records in blocks, as LevelDB's, with a heading of
// its own. A record has one chunk in each block that it is in: crc32 of kind and data (4 bytes), length (2),
// kind (1), data.
type wandbLog struct{ size int64 }

const (
	wandbBlock = 32 << 10
	chunkHead  = 7
)

// The kinds of chunks.
const (
	chunkFull = 1 + iota
	chunkFirst
	chunkMiddle
	chunkLast
)

// header appends the heading: magic bytes and version 0. It counts in the first block.
func (l *wandbLog) header(b []byte) []byte {
	h := []byte{':', 'W', '&', 'B', 0xe1, 0xbe, 0}
	l.size += int64(len(h))
	return append(b, h...)
}

// append appends a record to b, which is at the end of the log.
func (l *wandbLog) append(b, record []byte) []byte {
	for first := true; first || len(record) > 0; first = false {
		left := wandbBlock - int(l.size%wandbBlock)
		if left < chunkHead {
			b = append(b, make([]byte, left)...)
			l.size += int64(left)
			left = wandbBlock
		}
		n := min(len(record), left-chunkHead)
		kind := byte(chunkMiddle)
		switch last := n == len(record); {
		case first && last:
			kind = chunkFull
		case first:
			kind = chunkFirst
		case last:
			kind = chunkLast
		}
		sum := crc32.Update(crc32.ChecksumIEEE([]byte{kind}), crc32.IEEETable, record[:n])
		b = binary.LittleEndian.AppendUint32(b, sum)
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
		b = append(append(b, kind), record[:n]...)
		record = record[n:]
		l.size += int64(chunkHead + n)
	}
	return b
}
