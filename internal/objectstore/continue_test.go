package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"trireme/internal/objectstore"
	"trireme/internal/objectstore/objectstoretest"
)

// send writes the first bytes of b to a Writer of Continue, and commits if these are all.
func send(ctx context.Context, c *objectstore.Client, b []byte, n int) (w *objectstore.Writer, err error) {
	w = c.Continue(ctx, at, int64(len(b)))
	if _, err = w.Write(b[:n]); err == nil && n == len(b) {
		err = w.Commit()
	}
	return w, errors.Join(err, w.Close())
}

// TestContinue: a Writer sends only what an interrupted one has not sent, over several pages of the list of parts, and again
// what has another checksum or none.
func TestContinue(t *testing.T) {
	b := random(6100) // 21 parts of 300 bytes
	changed := bytes.Clone(b)
	changed[3*300+7]++
	for _, c := range []struct {
		name string
		then []byte
		set  func(*objectstoretest.Server)
		sent int // parts of the second Writer; those of the first are 17
	}{
		{"the same", b, func(*objectstoretest.Server) {}, 4},
		{"a part has other bytes", changed, func(*objectstoretest.Server) {}, 5},
		{"another size", b[:6000], func(*objectstoretest.Server) {}, 3},
		{"no checksums", b, (*objectstoretest.Server).HideSums, 21},
		{"parts are not listed: 501", b, func(s *objectstoretest.Server) { s.RefuseParts(http.StatusNotImplemented) }, 21},
		{"parts are not listed: 405", b, func(s *objectstoretest.Server) { s.RefuseParts(http.StatusMethodNotAllowed) }, 21},
		{"parts are not listed: 403", b, func(s *objectstoretest.Server) { s.RefuseParts(http.StatusForbidden) }, 21},
		{"parts are not listed: 400", b, func(s *objectstoretest.Server) { s.RefuseParts(http.StatusBadRequest) }, 21},
		{"parts are not listed: 404", b, func(s *objectstoretest.Server) { s.RefuseParts(http.StatusNotFound) }, 21},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := objectstoretest.New(t)
			if _, err := send(t.Context(), srv.Client(t), b, 17*300); err != nil {
				t.Fatal(err)
			}
			// Parts that were on their way when the Writer was closed may have been cut.
			for part := range 17 {
				srv.SetPart(at.Key, part+1, b[300*part:300*part+300])
			}
			srv = srv.Copy(t) // without requests that are still on their way
			if srv.Uploads() != 1 || srv.Stored(at.Key) != 17*300 {
				t.Fatalf("%d uploads with %d bytes", srv.Uploads(), srv.Stored(at.Key))
			}
			c.set(srv)
			before := srv.Received()
			w, err := send(t.Context(), srv.Client(t), c.then, len(c.then))
			if err != nil || !bytes.Equal(srv.Get(at.Key), c.then) || srv.Uploads() != 0 {
				t.Fatalf("%v, %d uploads", err, srv.Uploads())
			}
			last := (len(c.then)-1)%300 + 1
			if got, want := srv.Received()-before, int64(300*(c.sent-1)+last); got != want || w.Kept() != int64(len(c.then))-want {
				t.Errorf("%d bytes were sent again, want %d; %d were kept", got, want, w.Kept())
			}
		})
	}
}

// TestContinueNewest: of several unfinished uploads the newest is continued, and the others end. Those of other keys stay,
// and Create continues none.
func TestContinueNewest(t *testing.T) {
	srv, b := objectstoretest.New(t), random(3000)
	c := srv.Client(t)
	for _, key := range []string{at.Key, at.Key + "c", at.Key, at.Key} {
		w := c.Create(t.Context(), objectstore.Path{Bucket: at.Bucket, Key: key}, 3000) // and the process is killed
		if _, err := w.Write(b[:2000]); err != nil {
			t.Fatal(err)
		}
	}
	if n := srv.Uploads(); n != 4 {
		t.Fatal(n)
	}
	srv = srv.Copy(t) // without requests that are still on their way
	c = srv.Client(t)
	if w, err := send(t.Context(), c, b, 3000); err != nil || w.Kept() == 0 || srv.Uploads() != 1 || !bytes.Equal(srv.Get(at.Key), b) {
		t.Fatalf("%v: %d uploads, %d bytes kept", err, srv.Uploads(), w.Kept())
	}
	before := srv.Received()
	w := c.Create(t.Context(), objectstore.Path{Bucket: at.Bucket, Key: at.Key + "c"}, 3000)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Commit(), w.Close()); err != nil || w.Kept() != 0 || srv.Received()-before != 3000 || srv.Uploads() != 1 {
		t.Errorf("%v: %d kept, %d sent, %d uploads", err, w.Kept(), srv.Received()-before, srv.Uploads())
	}
}

// TestContinueAfterFailures: a store that fails at each request once, or from it on until the next Writer. That one does not send
// again what is stored.
func TestContinueAfterFailures(t *testing.T) {
	b, points := random(3000), 0
	for _, kind := range append([]objectstoretest.Kind{objectstoretest.Denied}, objectstoretest.Transient...) {
		for _, once := range []bool{true, false} {
			for n := 1; n <= 15; n++ {
				srv, f := objectstoretest.New(t), objectstoretest.Failure{Kind: kind, From: n}
				first := srv
				if once {
					f.To = n
				}
				what := fmt.Sprintf("%v at request %d, once: %v", kind, n, once)
				srv.Fail(f)
				_, failed := send(t.Context(), srv.Client(t), b, len(b))
				if once && kind != objectstoretest.Denied && failed != nil {
					t.Fatalf("%s: %v", what, failed)
				}
				srv = srv.Copy(t)                            // without requests that are still on their way
				if failed != nil && srv.Get(at.Key) == nil { // else the object is there: nothing is continued
					stored, before := srv.Stored(at.Key), srv.Received()
					if srv.Uploads() > 1 { // a repeated request has begun several: one is continued
						stored = 0
					}
					w, err := send(t.Context(), srv.Client(t), b, len(b))
					if err != nil || srv.Received()-before > 3000-stored || w.Kept() < stored {
						t.Fatalf("%s: %v: %d of %d bytes were sent again", what, err, srv.Received()-before, stored)
					}
				}
				if srv.Uploads() > 1 || !bytes.Equal(srv.Get(at.Key), b) {
					t.Fatalf("%s: %d uploads, %d bytes", what, srv.Uploads(), len(srv.Get(at.Key)))
				}
				points++
				first.Close()
				srv.Close()
			}
		}
	}
	t.Logf("%d points", points)
}

// TestContinueFails: a Writer that continues another one survives each transient failure of each request.
func TestContinueFails(t *testing.T) {
	start, b, points := objectstoretest.New(t), random(6100), 0
	if _, err := send(t.Context(), start.Client(t), b, 17*300); err != nil {
		t.Fatal(err)
	}
	for part := range 17 {
		start.SetPart(at.Key, part+1, b[300*part:300*part+300])
	}
	for _, kind := range objectstoretest.Transient {
		for n := 1; n <= 10; n++ {
			srv := start.Copy(t)
			srv.Fail(objectstoretest.Failure{Kind: kind, From: n, To: n})
			w, err := send(t.Context(), srv.Client(t), b, len(b))
			if err != nil || !bytes.Equal(srv.Get(at.Key), b) || srv.Uploads() != 0 || w.Kept() != 17*300 {
				t.Fatalf("%v at request %d: %v, %d uploads, %d bytes kept", kind, n, err, srv.Uploads(), w.Kept())
			}
			points++
			srv.Close()
		}
	}
	t.Logf("%d points", points)
}
