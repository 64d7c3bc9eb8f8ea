package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/objectstore"
	"trireme/internal/objectstore/objectstoretest"
)

func random(n int) []byte {
	rng, b := rand.NewChaCha8([32]byte{1}), make([]byte, n)
	_, _ = rng.Read(b) // cannot fail
	return b
}

var at = objectstore.Path{Bucket: objectstoretest.Bucket, Key: "a/b"}

func write(ctx context.Context, c *objectstore.Client, b []byte, step int) error {
	w := c.Create(ctx, at, int64(len(b)))
	for lo := 0; lo < len(b); lo += step {
		if _, err := w.Write(b[lo:min(len(b), lo+step)]); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return errors.Join(w.Commit(), w.Close())
}

// TestWriteAndRead: sizes around that of a part, writes and reads of several lengths, in order and at random.
func TestWriteAndRead(t *testing.T) {
	srv := objectstoretest.New(t)
	c := srv.Client(t)
	for _, n := range []int{0, 1, 299, 300, 301, 599, 600, 3000, 100_000} {
		for _, step := range []int{7, 300, 1000, 200_000} {
			b := random(n)
			if n/step > 2000 {
				continue
			}
			if err := write(t.Context(), c, b, step); err != nil || !bytes.Equal(srv.Get(at.Key), b) {
				t.Fatalf("%d bytes by %d: %v", n, step, err)
			}
			o, err := c.Open(t.Context(), at)
			if err != nil || o.Info.Size != int64(n) {
				t.Fatal(o, err)
			}
			got, err := io.ReadAll(io.NewSectionReader(o, 0, o.Info.Size))
			if err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			for range 20 {
				if n == 0 {
					break
				}
				off := rand.IntN(n)
				part := make([]byte, rand.IntN(2*n)+1)
				k, err := o.ReadAt(part, int64(off))
				if !bytes.Equal(part[:k], b[off:off+k]) || k < len(part) && (err != io.EOF || off+k != n) {
					t.Fatalf("%d bytes at %d of %d: %d, %v", len(part), off, n, k, err)
				}
			}
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestEachRequestFails: an upload in parts survives each transient failure of each request, and so does reading it.
func TestEachRequestFails(t *testing.T) {
	b := random(70_000)
	points := 0
	for _, kind := range objectstoretest.Transient {
		for n := 1; n <= 12; n++ {
			srv := objectstoretest.New(t)
			c := srv.Client(t)
			srv.Fail(objectstoretest.Failure{Kind: kind, From: n, To: n})
			if err := write(t.Context(), c, b[:3000], 100); err != nil || !bytes.Equal(srv.Get(at.Key), b[:3000]) {
				t.Fatalf("%v at request %d: %v", kind, n, err)
			}
			srv.Set(at.Key, b)
			srv.Fail(objectstoretest.Failure{Kind: kind, From: n, To: n})
			o, err := c.Open(t.Context(), at)
			if err != nil {
				t.Fatalf("%v at request %d: %v", kind, n, err)
			}
			if got, err := io.ReadAll(io.NewSectionReader(o, 0, o.Info.Size)); err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%v at request %d: %v", kind, n, err)
			}
			points += 2
			srv.Close()
		}
	}
	t.Logf("%d points", points)
}

// TestPutNew: of several writers one succeeds.
func TestPutNew(t *testing.T) {
	c := objectstoretest.New(t).Client(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = c.PutNew(t.Context(), at, []byte{byte(i)}) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			if err := c.PutNew(t.Context(), at, []byte{byte(i)}); err != nil { // the same content
				t.Fatal(err)
			}
		} else if !errors.Is(err, objectstore.ErrExists) {
			t.Fatal(err)
		}
	}
	if won != 1 {
		t.Fatalf("%d writers succeeded", won)
	}
}

func TestErrors(t *testing.T) {
	srv := objectstoretest.New(t)
	c := srv.Client(t)
	one := func(err error, want string) {
		t.Helper()
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, not %s", err, want)
		}
	}
	_, err := c.Open(t.Context(), at)
	if one(err, "s3://bucket/a/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	_, err = c.ReadDir(t.Context(), objectstore.Path{Bucket: "other"})
	if one(err, "NoSuchBucket"); !errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Busy, From: 1})
	one(c.Put(t.Context(), at, nil), "503 SlowDown: Please reduce your request rate (3 attempts in ")
	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Denied, From: 1})
	one(c.Put(t.Context(), at, nil), "403 AccessDenied: Access Denied. try: credentials")
	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.CutBefore, From: 1})
	one(c.Put(t.Context(), at, nil), "try: AWS_ENDPOINT_URL_S3 (now "+srv.URL)
	// The object is replaced while it is read.
	srv.Fail()
	srv.Set(at.Key, random(100_000))
	o, err := c.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	srv.Set(at.Key, make([]byte, 100_000))
	_, err = o.ReadAt(make([]byte, 10), 90_000)
	one(err, "it was replaced while it was read. try: ")
	one(c.PutNew(t.Context(), at, []byte("x")), "there is an object of that name. try: ")
}

// TestHang: a store that does not answer, and one that a caller does not wait for.
func TestHang(t *testing.T) {
	srv := objectstoretest.New(t)
	c, err := objectstore.New(t.Context(), objectstore.Options{Endpoint: srv.URL, AccessKey: "a", SecretKey: "b", Attempts: 2, Wait: time.Millisecond, Limit: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Hang, From: 1})
	began := time.Now()
	if err := c.Put(t.Context(), at, nil); err == nil || !strings.Contains(err.Error(), "the store took too long") || time.Since(began) > 5*time.Second {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(errors.New("stop")) })
	if err := write(ctx, srv.Client(t), random(3000), 100); err == nil || !strings.Contains(err.Error(), "stop") {
		t.Fatal(err)
	}
	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Hang, From: 2, To: 2})
	if err := c.Put(t.Context(), at, []byte("x")); err != nil {
		t.Fatal(err)
	}
}

// TestFailedUploadIsRemoved: a part that cannot be sent ends the upload.
func TestFailedUploadIsRemoved(t *testing.T) {
	srv := objectstoretest.New(t)
	srv.Fail(objectstoretest.Failure{Kind: objectstoretest.Busy, From: 3, Method: "PUT"})
	if err := write(t.Context(), srv.Client(t), random(10_000), 100); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Fatal(err)
	}
	if n := srv.Uploads(); n != 0 || len(srv.Keys()) != 0 {
		t.Fatal(n, srv.Keys())
	}
}
