package objectstoretest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// ServeHTTP answers a request. Paths are /BUCKET/KEY.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	s.requests++
	s.now++
	s.most = max(s.most, s.now)
	kind, delay := s.failing(r.Method), s.delay
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now--
	}()
	time.Sleep(delay)
	if (kind == Conflict || kind == Damaged) && r.Method != http.MethodPut && r.Method != http.MethodPost {
		kind = CutBefore // they are answers to writes
	}
	answer := newAnswer()
	switch kind {
	case CutBefore:
		panic(http.ErrAbortHandler)
	case Busy:
		answer.fail(http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.")
	case Internal:
		answer.fail(http.StatusInternalServerError, "InternalError", "We encountered an internal error.")
	case Denied:
		answer.fail(http.StatusForbidden, "AccessDenied", "Access Denied.")
	case Conflict:
		answer.fail(http.StatusConflict, "ConditionalRequestConflict", "A conflicting operation occurred.")
	case Damaged:
		answer.fail(http.StatusBadRequest, "BadDigest", "The checksum you specified did not match.")
	default:
		if kind == Twice {
			s.answer(newAnswer(), r, body)
		}
		s.answer(answer, r, body)
	}
	s.answered(r.Method, answer)
	switch kind {
	case CutAfter:
		panic(http.ErrAbortHandler)
	case Hang:
		select {
		case <-r.Context().Done():
		case <-time.After(30 * time.Second):
		}
		panic(http.ErrAbortHandler)
	case WrongSum:
		if answer.header.Get(sumHeader) != "" {
			answer.header.Set(sumHeader, "AAAAAA==")
		}
	}
	maps.Copy(w.Header(), answer.header)
	w.Header().Set("Content-Length", fmt.Sprint(len(answer.body)))
	if r.Method == http.MethodHead && answer.length >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(answer.length))
	}
	w.WriteHeader(answer.status)
	if kind == CutBody && len(answer.body) > 0 {
		_, _ = w.Write(answer.body[:len(answer.body)/2])
		panic(http.ErrAbortHandler)
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(answer.body) // the client may be gone
	}
}

const sumHeader = "X-Amz-Checksum-Crc32c"

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte
	length int64 // of an object; -1: of the body
}

func newAnswer() *answer { return &answer{status: http.StatusOK, header: http.Header{}, length: -1} }

func (a *answer) fail(status int, code, message string) {
	a.status = status
	a.header.Set("Content-Type", "application/xml")
	a.body = fmt.Appendf(nil, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
}

// answer executes a request.
func (s *Server) answer(a *answer, r *http.Request, body []byte) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket != Bucket {
		a.fail(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist.")
		return
	}
	if sent := r.Header.Get("X-Amz-Content-Sha256"); len(sent) == 64 {
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != sent {
			a.fail(http.StatusBadRequest, "XAmzContentSHA256Mismatch", "The provided SHA-256 does not match.")
			return
		}
	}
	if sent := r.Header.Get(sumHeader); sent != "" {
		if sent != Checksum(body) {
			a.fail(http.StatusBadRequest, "BadDigest", "The CRC-32C does not match.")
			return
		}
		a.header.Set(sumHeader, sent)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && key == "" && q.Has("uploads"):
		s.listUploads(a, q.Get("prefix"))
	case r.Method == http.MethodGet && key == "":
		s.list(a, q)
	case r.Method == http.MethodGet && q.Has("uploadId"):
		s.listParts(a, key, q)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.read(a, key, r)
	case r.Method == http.MethodPost && q.Has("uploads"):
		s.create(a, key)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		s.complete(a, key, q.Get("uploadId"), body)
	case r.Method == http.MethodPut && q.Has("uploadId"):
		s.part(a, q, body)
	case r.Method == http.MethodPut:
		s.put(a, key, r, body)
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		if _, ok := s.uploads[q.Get("uploadId")]; !ok {
			a.fail(http.StatusNotFound, "NoSuchUpload", "The upload does not exist.")
			return
		}
		delete(s.uploads, q.Get("uploadId"))
		a.status = http.StatusNoContent
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		a.status = http.StatusNoContent
	default:
		a.fail(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
	}
}
