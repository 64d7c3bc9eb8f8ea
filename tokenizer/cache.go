package tokenizer

// wordCache caches the tokens of recent pieces. Entries are cache lines, indexed by hash; a new
// piece overwrites the old one.
type wordCache []cacheEntry

type cacheEntry struct {
	key  pieceKey
	len  uint8 // bytes of the piece; 0 if empty
	n    uint8 // tokens
	_    [2]byte
	toks [cachedTokens]int32
}

const (
	cacheEntries = 1 << 14
	cachedTokens = 7
	cachedBytes  = 32
)

// pieceKey is a piece of up to 32 bytes, zero-padded.
type pieceKey [4]uint64

func keyOf(p string) (k pieceKey) {
	n := len(p)
	switch {
	case n > 16:
		k[0], k[1] = load64(p, 0), load64(p, 8)
		k[2], k[3] = load64(p, n-16), load64(p, n-8)
	case n >= 8:
		k[0], k[1] = load64(p, 0), load64(p, n-8)
	case n >= 4:
		k[0] = uint64(load32(p, 0)) | uint64(load32(p, n-4))<<32
	default:
		k[0] = uint64(p[0]) | uint64(p[n/2])<<8 | uint64(p[n-1])<<16
	}
	return k
}

func load64(p string, i int) uint64 {
	return uint64(load32(p, i)) | uint64(load32(p, i+4))<<32
}

func load32(p string, i int) uint32 {
	p = p[i : i+4]
	return uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24
}

// slot returns the entry for a piece of 1 to cachedBytes bytes.
func (c wordCache) slot(k *pieceKey, n int) *cacheEntry {
	const m = 0x9e3779b97f4a7c15
	h := (k[0] ^ uint64(n)) * m
	h = (h ^ h>>29 ^ k[1]) * m
	if n > 16 {
		h = (h ^ h>>29 ^ k[2]) * m
		h = (h ^ h>>29 ^ k[3]) * m
	}
	return &c[h>>(64-14)]
}
