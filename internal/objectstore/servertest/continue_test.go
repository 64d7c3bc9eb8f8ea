package servertest

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"trireme/checkpoint"
	"trireme/internal/objectstore"
)

// refusing passes requests on to a store, of those with PUT a number, and refuses the others.
type refusing struct {
	to    *proxy
	left  atomic.Int64 // requests with PUT that are passed on
	parts atomic.Int64 // bytes of those passed on
	now   atomic.Int64 // those in progress
}

func newRefusing(t *testing.T, to string) (*refusing, string) {
	through, _ := newProxy(t, to)
	p := &refusing{to: through}
	srv := httptest.NewServer(p)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return p, srv.URL
}

func (p *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		p.now.Add(1)
		defer p.now.Add(-1)
		if p.left.Add(-1) < 0 {
			for p.now.Add(-1); p.now.Load() > 0; { // a refusal ends the others of a Writer
				time.Sleep(time.Millisecond)
			}
			p.now.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		p.parts.Add(r.ContentLength)
	}
	p.to.ServeHTTP(w, r)
}

// TestContinue: a Writer continues an upload that was interrupted, and a copy of a checkpoint one that the store refused in the
// middle. Parts of 8 MiB are not sent twice.
func TestContinue(t *testing.T) {
	to, _ := serve(t)
	p, at := newRefusing(t, to)
	environment(t, at)
	const part, most = 8 << 20, 1 << 40
	t.Run("writer", func(t *testing.T) {
		c, err := objectstore.New(t.Context(), objectstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 5*part+1000)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // cannot fail
		key := objectstore.Path{Bucket: bucket, Key: "a/object"}
		p.left.Store(3)
		w := c.Continue(t.Context(), key, int64(len(b)))
		_, err = w.Write(b)
		if err == nil {
			err = w.Commit()
		}
		if err := errors.Join(err, w.Close()); !errors.Is(err, objectstore.ErrUnavailable) {
			t.Fatal(err)
		}
		if up, err := c.Uploads(t.Context(), objectstore.Path{Bucket: bucket, Key: "a"}); err != nil || len(up) != 1 {
			t.Fatal(up, err)
		}
		p.left.Store(most)
		sent := p.parts.Swap(0)
		w = c.Continue(t.Context(), key, int64(len(b)))
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Commit(), w.Close()); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadAll(t.Context(), key, int64(len(b)))
		if err != nil || string(got) != string(b) {
			t.Fatal(len(got), err)
		}
		if w.Kept() != 3*part || w.Kept() != sent || w.Kept()+p.parts.Load() != int64(len(b)) {
			t.Errorf("%d bytes were sent, %d were kept, %d sent again", sent, w.Kept(), p.parts.Load())
		}
		if up, err := c.Uploads(t.Context(), objectstore.Path{Bucket: bucket, Key: "a"}); err != nil || len(up) != 0 {
			t.Error(up, err)
		}
	})
	t.Run("copy", func(t *testing.T) {
		out := t.TempDir()
		disk, err := checkpoint.NewStore(out, "a-run", checkpoint.Config{}, checkpoint.SingleProcess{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		items, want := state(10<<20, 1) // 40 MiB: six parts
		saved, err := disk.Save(t.Context(), checkpoint.Meta{Step: 1}, items)
		if err != nil {
			t.Fatal(err)
		}
		dir := "s3://" + bucket + "/copies"
		p.left.Store(4) // the manifest and three parts
		p.parts.Store(0)
		if _, err := disk.StartCopy(t.Context(), saved.Path, 1, store(t, dir)).Wait(); err == nil {
			t.Fatal("the store has refused nothing")
		}
		p.left.Store(most)
		sent := p.parts.Swap(0)
		copied, err := disk.StartCopy(t.Context(), saved.Path, 1, store(t, dir)).Wait()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := os.Stat(filepath.Join(saved.Path, "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		if again := p.parts.Load(); copied.Kept != 3*part || sent != copied.Kept+manifest.Size() || again >= saved.Bytes-copied.Kept+1024 { // with COMMIT

			t.Errorf("%d bytes were sent, %d of %d were kept, %d sent again", sent, copied.Kept, copied.Bytes, again)
		}
		if !strings.HasPrefix(filepath.Base(copied.Path), "step-1-1-") {
			t.Errorf("the copy is %s, not the attempt that was interrupted", copied.Path)
		}
		items, got := state(10<<20, 0)
		if _, err := store(t, dir).Resume(t.Context(), "auto", items, checkpoint.LoadOptions{}); err != nil || string(got) != string(want) {
			t.Errorf("the copy has other bits, %v", err)
		}
	})
}
