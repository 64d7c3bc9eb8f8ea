package objectstoretest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/objectstore"
)

// Bucket exists in every Server.
const Bucket = "bucket"

// Server is an object store. Its methods are safe for concurrent use.
type Server struct {
	URL string

	mu       sync.Mutex
	objects  map[string]object // by key
	uploads  map[string]*upload
	ids      int
	requests int
	failures []Failure
	after    map[string]*event
	bytes    int64
	server   *httptest.Server
}

type object struct {
	data     []byte
	tag      string
	modified time.Time
}

type upload struct {
	key   string
	parts map[int][]byte
}

// Start starts a server, which ends with the test, and sets the variables of the environment that clients read.
func Start(t testing.TB) *Server {
	t.Helper()
	s := New(t)
	for name, value := range s.Environment() {
		t.Setenv(name, value)
	}
	return s
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	s := Serve()
	t.Cleanup(s.Close)
	return s
}

// Serve starts a server.
func Serve() *Server {
	s := &Server{objects: map[string]object{}, uploads: map[string]*upload{}, after: map[string]*event{}}
	s.server = httptest.NewServer(s)
	s.URL = s.server.URL
	return s
}

// Environment is the variables with which clients find the server, and nothing else.
func (s *Server) Environment() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_S3": s.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	}
}

// Client returns a client of the server that does not wait long and has small parts, so that small objects have several.
func (s *Server) Client(t testing.TB) *objectstore.Client {
	t.Helper()
	c, err := objectstore.New(t.Context(), objectstore.Options{
		Endpoint: s.URL, AccessKey: "test", SecretKey: "secret", Attempts: 3, Wait: time.Millisecond, Limit: 5 * time.Second, PartBytes: 300,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Close cuts all connections and ends the server.
func (s *Server) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// Keys lists the objects, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Uploads is the number of unfinished multipart uploads.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Get returns the bytes of an object; nil if there is none.
func (s *Server) Get(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key].data
}

// Set stores an object.
func (s *Server) Set(key string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = newObject(slices.Clone(b))
}

// Delete deletes an object.
func (s *Server) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// Copy returns a server with the same objects and uploads, and no failures.
func (s *Server) Copy(t testing.TB) *Server {
	c := New(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ids, c.objects = s.ids, maps.Clone(s.objects)
	for id, u := range s.uploads {
		c.uploads[id] = &upload{u.key, maps.Clone(u.parts)}
	}
	return c
}

// After calls f once, after n further answers to requests of a method, before the last of them is sent.
func (s *Server) After(method string, n int, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after[method] = &event{n, f}
}

// event is a call after n answers.
type event struct {
	n int
	f func()
}

// answered counts an answer.
func (s *Server) answered(method string, a *answer) {
	s.mu.Lock()
	if a.status < 300 && method == http.MethodGet && a.length >= 0 {
		s.bytes += int64(len(a.body))
	}
	e := s.after[method]
	if e != nil {
		if e.n--; e.n == 0 {
			delete(s.after, method)
		} else {
			e = nil
		}
	}
	s.mu.Unlock()
	if e != nil {
		e.f()
	}
}

// Bytes is the number of bytes of objects in answers so far.
func (s *Server) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Requests is the number of requests so far.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func newObject(b []byte) object {
	sum := sha256.Sum256(b)
	return object{b, `"` + hex.EncodeToString(sum[:16]) + `"`, time.Now().UTC().Truncate(time.Second)}
}

// ServeHTTP answers a request. Paths are /BUCKET/KEY.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	s.requests++
	kind := s.failing(r.Method)
	s.mu.Unlock()
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
		a.fail(http.StatusNotImplemented, "NotImplemented", "Not implemented.")
	}
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
