package objectstoretest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"time"
)

type object struct {
	data     []byte
	tag      string
	modified time.Time
}

func newObject(b []byte) object {
	sum := sha256.Sum256(b)
	return object{b, `"` + hex.EncodeToString(sum[:16]) + `"`, time.Now().UTC().Truncate(time.Second)}
}

// Checksum is the CRC-32C of b as S3 writes it.
func Checksum(b []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
}

func (s *Server) put(a *answer, key string, r *http.Request, body []byte) {
	if _, ok := s.objects[key]; ok && r.Header.Get("If-None-Match") == "*" {
		a.fail(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the preconditions did not hold.")
		return
	}
	o := newObject(slices.Clone(body))
	s.objects[key] = o
	s.received += int64(len(body))
	a.header.Set("ETag", o.tag)
}

func (s *Server) read(a *answer, key string, r *http.Request) {
	o, ok := s.objects[key]
	if !ok {
		a.fail(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
		return
	}
	if match := r.Header.Get("If-Match"); match != "" && match != o.tag {
		a.fail(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the preconditions did not hold.")
		return
	}
	a.body = o.data
	if r.Header.Get("X-Amz-Checksum-Mode") != "" {
		a.header.Set(sumHeader, Checksum(o.data))
		a.header.Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	}
	if r.Method == http.MethodGet && r.Header.Get("Range") != "" {
		var first, last int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil || first >= len(o.data) || first > last {
			a.fail(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable.")
			return
		}
		last = min(last, len(o.data)-1)
		a.status, a.body = http.StatusPartialContent, o.data[first:last+1]
		a.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(o.data)))
	}
	a.header.Set("ETag", o.tag)
	a.header.Set("Last-Modified", o.modified.Format(http.TimeFormat))
	a.length = int64(len(o.data))
}
