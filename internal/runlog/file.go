package runlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"trireme/internal/flock"
)

// A file of the index, little-endian:
//
//	magic, header length and CRC-32C of the header, each 4 bytes
//	header: part, begin, end, digest of samples, rows, first and last step, size of the file, metrics:
//	  name, bucket of all rows, constant value or offset and a CRC-32C for each of the levels 0, 1, 2
//	data: for each metric that is not constant its values, then its buckets of level 1 and 2
const (
	magic      = "TRX1"
	maxHeader  = 1 << 23
	bucketSize = 40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is the error of a file that is not a valid chunk.
var errDamaged = errors.New("damaged index")

// stored is a chunk in a file.
type stored struct {
	f           *os.File
	part        int
	begin, end  int64
	digest      uint64
	n           int
	first, last int64
	columns     map[string]*storedColumn
	names       []string
}

type storedColumn struct {
	all      bucket
	constant bool
	value    float64
	offset   int64 // of its data in the file
	sums     [3]uint32
}

var _ chunk = (*stored)(nil)

// lengths returns the bytes of the levels of a column of n rows.
func lengths(n int) [3]int64 {
	return [3]int64{int64(n) * 8, int64((n+fan-1)/fan) * bucketSize, int64((n+fan*fan-1)/(fan*fan)) * bucketSize}
}

func appendBucket(b []byte, v bucket) []byte {
	for _, x := range []float64{v.min, v.max, v.sum, v.last} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	b = binary.LittleEndian.AppendUint32(b, v.count)
	return binary.LittleEndian.AppendUint32(b, v.nonfinite)
}

func readBucket(b []byte) bucket {
	f := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])) }
	return bucket{f(0), f(1), f(2), f(3), binary.LittleEndian.Uint32(b[32:]), binary.LittleEndian.Uint32(b[36:])}
}

// write writes a table as a file of the index, atomically.
func (t *table) write(path string, digest uint64) error {
	names := slices.Sorted(slices.Values(t.metrics()))
	type column struct {
		storedColumn
		data []byte
	}
	columns := make([]column, len(names))
	sizes := lengths(t.n)
	offset := int64(0) // from the end of the header
	header := 0
	for i, name := range names {
		v, _ := t.values(name)
		c := &columns[i]
		c.all, c.constant, c.value, c.offset = t.top(name), constant(v), v[0], offset
		header += 2 + len(name) + bucketSize + 1 + 8
		if c.constant {
			continue
		}
		header += 12
		for _, x := range v {
			c.data = binary.LittleEndian.AppendUint64(c.data, math.Float64bits(x))
		}
		for level := 1; level <= 2; level++ {
			for _, b := range summarize(v, levelRows[level]) {
				c.data = appendBucket(c.data, b)
			}
		}
		from := int64(0)
		for level, n := range sizes {
			c.sums[level] = crc32.Checksum(c.data[from:from+n], castagnoli)
			from += n
		}
		offset += from
	}
	first, last := t.steps()
	const before, fixedSize = 12, 4 + 8*3 + 4 + 8*2 + 8 + 4
	data := int64(before + fixedSize + header)
	h := binary.LittleEndian.AppendUint32(nil, uint32(t.part))
	for _, v := range []uint64{uint64(t.begin), uint64(t.end), digest} {
		h = binary.LittleEndian.AppendUint64(h, v)
	}
	h = binary.LittleEndian.AppendUint32(h, uint32(t.n))
	for _, v := range []uint64{uint64(first), uint64(last), uint64(data + offset)} {
		h = binary.LittleEndian.AppendUint64(h, v)
	}
	h = binary.LittleEndian.AppendUint32(h, uint32(len(names)))
	for i, name := range names {
		c := columns[i]
		h = binary.LittleEndian.AppendUint16(h, uint16(len(name)))
		h = append(h, name...)
		h = appendBucket(h, c.all)
		if c.constant {
			h = binary.LittleEndian.AppendUint64(append(h, 1), math.Float64bits(c.value))
			continue
		}
		h = binary.LittleEndian.AppendUint64(append(h, 0), uint64(data+c.offset))
		for _, s := range c.sums {
			h = binary.LittleEndian.AppendUint32(h, s)
		}
	}
	start := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(h)))
	start = binary.LittleEndian.AppendUint32(start, crc32.Checksum(h, castagnoli))
	// Without sync: a file that is torn by a power loss has a wrong checksum and is written again.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = f.Write(append(start, h...))
	for i := 0; i < len(columns) && err == nil; i++ {
		_, err = f.Write(columns[i].data)
	}
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// openStored reads the header of a file of the index.
func openStored(path string) (*stored, error) {
	f, err := flock.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	c, err := readHeader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.f = f
	return c, nil
}

func readHeader(f *os.File) (*stored, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	start := make([]byte, 12)
	if _, err := io.ReadFull(f, start); err != nil || string(start[:4]) != magic {
		return nil, errDamaged
	}
	n := binary.LittleEndian.Uint32(start[4:])
	if n > maxHeader {
		return nil, errDamaged
	}
	h := make([]byte, n)
	if _, err := io.ReadFull(f, h); err != nil || crc32.Checksum(h, castagnoli) != binary.LittleEndian.Uint32(start[8:]) {
		return nil, errDamaged
	}
	return parseHeader(h, st.Size())
}

// parseHeader reads the header of a file of size bytes. Its bytes may be anything.
func parseHeader(h []byte, size int64) (*stored, error) {
	bad := false
	take := func(n int) []byte {
		if bad || len(h) < n {
			bad = true
			return make([]byte, n)
		}
		b := h[:n]
		h = h[n:]
		return b
	}
	u32 := func() uint32 { return binary.LittleEndian.Uint32(take(4)) }
	u64 := func() uint64 { return binary.LittleEndian.Uint64(take(8)) }
	c := &stored{part: int(u32()), begin: int64(u64()), end: int64(u64()), digest: u64(), n: int(u32()), first: int64(u64()), last: int64(u64())}
	total, count := int64(u64()), int(u32())
	if bad || c.begin < 0 || c.end <= c.begin || c.n < 1 || c.n > chunkRows || c.first < 0 || c.last < c.first || total != size || count > maxColumns {
		return nil, errDamaged
	}
	c.columns = make(map[string]*storedColumn, count)
	data := int64(0)
	for _, n := range lengths(c.n) {
		data += n
	}
	for range count {
		name := string(take(int(binary.LittleEndian.Uint16(take(2)))))
		col := &storedColumn{all: readBucket(take(bucketSize))}
		switch take(1)[0] {
		case 1:
			col.constant, col.value = true, math.Float64frombits(u64())
		case 0:
			col.offset = int64(u64())
			for level := range col.sums {
				col.sums[level] = u32()
			}
			bad = bad || col.offset < 0 || col.offset > size-data
		default:
			bad = true
		}
		if bad {
			return nil, errDamaged
		}
		c.columns[name] = col
		c.names = append(c.names, name)
	}
	for _, name := range fixed[:4] { // of every row, except the time
		if c.columns[name] == nil && name != "time" {
			return nil, errDamaged
		}
	}
	if len(h) > 0 || len(c.columns) != count {
		return nil, errDamaged
	}
	return c, nil
}
