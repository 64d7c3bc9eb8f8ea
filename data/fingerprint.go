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

// Fingerprint identifies data by content, not by path. Each field is a digest in hexadecimal, "" if
// absent. Equal digests mean equal tokens, labels and document ends, except that other programs'
// token files over 64 MiB are compared by size and 256 evenly spaced blocks of 64 KiB.
type Fingerprint struct {
	Train     string `json:"train,omitempty"`
	Eval      string `json:"eval,omitempty"` // if it has files of its own
	Tokenizer string `json:"tokenizer,omitempty"`
}

// Fingerprint computes the digests. Those of tokenized files are kept beside the tokens in the
// cache.
func (s *Sets) Fingerprint(ctx context.Context) Fingerprint {
	return Fingerprint{contentOf(ctx, s.train), contentOf(ctx, s.eval), s.tokenizer}
}

// contentOf is the digest of several token files, in order.
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
	sampledAbove = 64 << 20 // bytes of a file outside the cache
	sampleBlocks = 256
	sampleBlock  = 64 << 10
)

// content returns the digest of a token file's content.
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
	// If the cache is not writable, the digest is computed each time.
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

// digestContent hashes all sections, or samples of them.
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

// writeSamples hashes evenly spaced blocks of b, including the first and the last.
func writeSamples(h hash.Hash, b []byte) {
	last := len(b) - sampleBlock
	for i := range sampleBlocks {
		at := int(int64(last) * int64(i) / (sampleBlocks - 1))
		h.Write(b[at : at+sampleBlock])
	}
}
