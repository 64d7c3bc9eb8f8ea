package safetensors

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// checksumKey is the key in __metadata__ under which a file has its checksums. Its value is hexadecimal, eight digits each:
// the checksum of the header, and those of the tensors' blocks, the tensors sorted by name. A block has BlockBytes bytes, the
// last of a tensor the rest. All are CRC-32C. That of the header is of what it says, not of its bytes (see headerSum), so
// programs that write a file anew with the same tensors and metadata keep the checksums valid.
const checksumKey = "trireme.crc32c.256KiB"

// BlockBytes is the number of bytes of a tensor that have a checksum; they fit into the L2 cache between read and checksum. Reads of
// whole blocks are the fastest.
const BlockBytes = 256 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksums are those of a file's tensors.
type checksums struct {
	first []int    // number of a tensor's first block, by index in the file
	crc   []uint32 // by number of block
}

// newChecksums numbers the blocks of tensors.
func newChecksums(infos []Info) *checksums {
	c := &checksums{first: make([]int, len(infos))}
	n := 0
	for _, i := range byName(infos) {
		c.first[i] = n
		n += blocksOf(infos[i].Size)
	}
	c.crc = make([]uint32, n)
	return c
}

// byName returns the indices of tensors sorted by name.
func byName(infos []Info) []int {
	order := make([]int, len(infos))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(infos[a].Name, infos[b].Name) })
	return order
}

// blocksOf returns the number of blocks of a tensor of size bytes.
func blocksOf(size int64) int { return int((size + BlockBytes - 1) / BlockBytes) }

// blockSize returns the size of block k of a tensor of size bytes.
func blockSize(size int64, k int) int { return int(min(BlockBytes, size-int64(k)*BlockBytes)) }

// headerSum returns the checksum of a header: of a line for each other entry of its metadata, sorted by key, and for each
// tensor, sorted by name.
func headerSum(infos []Info, metadata map[string]string) uint32 {
	h := crc32.New(castagnoli)
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		if k != checksumKey {
			fmt.Fprintf(h, "%q %q\n", k, metadata[k])
		}
	}
	for _, i := range byName(infos) {
		fmt.Fprintf(h, "%q %s %v\n", infos[i].Name, infos[i].Type, infos[i].Shape)
	}
	return h.Sum32()
}

// encode returns the value in __metadata__, with the checksum of the header.
func (c *checksums) encode(header uint32) string {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+4*len(c.crc)), header)
	for _, crc := range c.crc {
		b = binary.BigEndian.AppendUint32(b, crc)
	}
	return hex.EncodeToString(b)
}

// parseChecksums returns the checksums in a header, nil if it has none. It compares that of the header.
func parseChecksums(h *header) (*checksums, error) {
	text, ok := h.metadata[checksumKey]
	if !ok {
		return nil, nil
	}
	c := newChecksums(h.infos)
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 4+4*len(c.crc) {
		return nil, fmt.Errorf("%s in its metadata is not the checksums of %d blocks", checksumKey, len(c.crc))
	}
	for k := range c.crc {
		c.crc[k] = binary.BigEndian.Uint32(b[4+4*k:])
	}
	if headerSum(h.infos, h.metadata) != binary.BigEndian.Uint32(b) {
		return nil, fmt.Errorf("its header does not match its checksum (%s in its metadata)", checksumKey)
	}
	return c, nil
}

// verifier compares the blocks of a file with their checksums, each once. Its methods are safe for concurrent use.
type verifier struct {
	*checksums
	good []atomic.Uint32 // a bit per block
}

func newVerifier(c *checksums) *verifier {
	return &verifier{c, make([]atomic.Uint32, (len(c.crc)+31)/32)}
}

// isGood reports whether a block was compared and is good.
func (v *verifier) isGood(block int) bool { return v.good[block/32].Load()&(1<<(block%32)) != 0 }

// compare reports whether b has the checksum of a block.
func (v *verifier) compare(block int, b []byte) bool {
	if crc32.Checksum(b, castagnoli) != v.crc[block] {
		return false
	}
	v.good[block/32].Or(1 << (block % 32))
	return true
}
