package data

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
	"os"

	"trireme/internal/durable"
	"trireme/internal/flock"
)

// Fingerprint tells data apart by what it holds, wherever it lies. Each part is a digest in hexadecimal
// digits; empty: there is none. Parts are equal where all tokens, labels and ends of documents are,
// but of token files of other programs above 64 MiB only the size and 256 blocks of 64 KiB, spread
// evenly, are compared.
type Fingerprint struct {
	Train     string `json:"train,omitempty"`
	Eval      string `json:"eval,omitempty"` // of an evaluation set of its own
	Tokenizer string `json:"tokenizer,omitempty"`
}

// Fingerprint reads what the digests are of, where nobody has before: those of texts are kept beside
// their tokens in the cache.
func (s *Sets) Fingerprint(ctx context.Context) Fingerprint {
	return Fingerprint{contentOf(ctx, s.train), contentOf(ctx, s.eval), s.tokenizer}
}

// contentOf is the digest of token files, one after the other.
func contentOf(ctx context.Context, files []*tokenFile) string {
	if len(files) == 0 {
		return ""
	}
	h := sha256.New()
	for _, f := range files {
		io.WriteString(h, f.content(ctx))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

const (
	sampledAbove = 64 << 20 // bytes of a file that is not in the cache
	sampleBlocks = 256
	sampleBlock  = 64 << 10
)

// content is the digest of a token file's content.
func (t *tokenFile) content(ctx context.Context) string {
	if !t.cached {
		return t.digestContent(len(t.data) > sampledAbove)
	}
	path := t.at + ".sum"
	if sum, ok := readSum(path); ok {
		return sum
	}
	if unlock, err := flock.Lock(ctx, path+".lock", 0o600, nil); err == nil {
		defer unlock()
	}
	if sum, ok := readSum(path); ok { // of another process
		return sum
	}
	sum := t.digestContent(false)
	// Where the cache takes no more, the digest is made anew each time.
	_ = durable.Replace(path, 0o600, func(f *os.File) error {
		_, err := f.WriteString(sum)
		return err
	})
	return sum
}

func readSum(path string) (string, bool) {
	b, err := os.ReadFile(path)
	return string(b), err == nil && len(b) == 2*sha256.Size
}

// digestContent reads all that rows are made of, or samples.
func (t *tokenFile) digestContent(sampled bool) string {
	h := sha256.New()
	if sampled {
		io.WriteString(h, "sampled\n")
	}
	for _, section := range [][]byte{t.ids, t.ends, t.count, t.hide, t.replace, t.class} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(section))))
		if sampled && len(section) > sampleBlocks*sampleBlock {
			writeSamples(h, section)
		} else {
			h.Write(section)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// writeSamples writes blocks of b, the first and the last among them.
func writeSamples(h hash.Hash, b []byte) {
	last := len(b) - sampleBlock
	for i := range sampleBlocks {
		at := int(int64(last) * int64(i) / (sampleBlocks - 1))
		h.Write(b[at : at+sampleBlock])
	}
}
