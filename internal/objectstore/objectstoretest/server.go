package objectstoretest

import (
	"maps"
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
	delay    time.Duration
	now      int // requests in progress
	most     int // of now
	failures []Failure
	after    map[string]*event
	bytes    int64
	received int64
	noParts  int  // the status of lists of parts; 0: they are answered
	noSums   bool // lists of parts have no checksums
	server   *httptest.Server
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
		c.uploads[id] = &upload{u.key, u.began, maps.Clone(u.parts)}
	}
	return c
}

// Bytes is the number of bytes of objects in answers so far.
func (s *Server) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Received is the number of bytes of objects and parts that were written so far, also those written again.
func (s *Server) Received() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// Stored is the number of bytes of the objects and of the parts of unfinished uploads whose keys begin with a prefix.
func (s *Server) Stored(prefix string) (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, o := range s.objects {
		if strings.HasPrefix(key, prefix) {
			n += int64(len(o.data))
		}
	}
	for _, u := range s.uploads {
		for _, b := range u.parts {
			if strings.HasPrefix(u.key, prefix) {
				n += int64(len(b))
			}
		}
	}
	return n
}

// SetPart stores a part of the unfinished uploads of a key.
func (s *Server) SetPart(key string, number int, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.uploads {
		if u.key == key {
			u.parts[number] = slices.Clone(b)
		}
	}
}

// RefuseParts answers later lists of parts with a status; 0 lists them.
func (s *Server) RefuseParts(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noParts = status
}

// HideSums leaves the checksums out of later lists of parts, as some stores do.
func (s *Server) HideSums() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noSums = true
}

// Requests is the number of requests so far.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Slow delays answers to later requests, and AtOnce counts from here.
func (s *Server) Slow(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay, s.most = delay, s.now
}

// AtOnce is the largest number of requests that were in progress at a time.
func (s *Server) AtOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Age makes all objects and uploads older.
func (s *Server) Age(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, o := range s.objects {
		o.modified = o.modified.Add(-by)
		s.objects[key] = o
	}
	for _, u := range s.uploads {
		u.began = u.began.Add(-by)
	}
}
