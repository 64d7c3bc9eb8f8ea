package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"trireme/checkpoint"
	"trireme/internal/objectstore"
	"trireme/tensor"
)

const bucket = "bucket"

// serve starts the store and returns its URL and the directory with its objects.
func serve(t *testing.T) (url, dir string) {
	t.Helper()
	began := time.Now()
	path, err := exec.Command("go", "tool", "-n", "versitygw").Output()
	if err != nil {
		t.Fatalf("go tool -n versitygw: %v", err)
	}
	t.Logf("built or found in %.1f s", time.Since(began).Seconds())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	sidecar := t.TempDir() // file systems without extended attributes
	c := exec.Command(strings.TrimSpace(string(path)), "--access", "test", "--secret", "secret", "--port", addr, "--quiet", "posix", "--sidecar", sidecar, dir)
	output := &strings.Builder{}
	c.Stdout, c.Stderr = output, output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() { _ = c.Process.Kill(); <-ended })
	for range 200 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return "http://" + addr, dir
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = c.Process.Kill()
	ended <- <-ended
	t.Fatalf("the store does not listen: %s", output)
	return "", ""
}

// proxy passes requests on to a store and spoils a fraction of them.
type proxy struct {
	to   *httputil.ReverseProxy
	mu   sync.Mutex
	rng  *rand.Rand
	rate float64
	n    map[string]int
}

func newProxy(t *testing.T, to string) (*proxy, string) {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{rng: rand.New(rand.NewPCG(7, 7)), n: map[string]int{}}
	p.to = &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { host := r.In.Host; r.SetURL(u); r.Out.Host = host }, // as it was signed
		ErrorLog: log.New(io.Discard, "", 0),
	}
	srv := httptest.NewServer(p)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return p, srv.URL
}

func (p *proxy) kind() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n["all"]++
	if p.rng.Float64() >= p.rate {
		return ""
	}
	kinds := []string{"cut before", "cut after", "cut answer", "half sent", "503", "slow", "twice"}
	k := kinds[p.rng.IntN(len(kinds))]
	p.n[k]++
	return k
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := p.kind()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	send := func(w http.ResponseWriter) { p.send(w, r, bytes.NewReader(body)) }
	switch kind {
	case "cut before":
		panic(http.ErrAbortHandler)
	case "cut after":
		send(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	case "half sent": // the store meets the end of the connection in the middle of the body
		p.send(httptest.NewRecorder(), r, io.MultiReader(bytes.NewReader(body[:len(body)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)))
		panic(http.ErrAbortHandler)
	case "cut answer":
		rec := httptest.NewRecorder()
		send(rec)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		panic(http.ErrAbortHandler)
	case "503":
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case "slow":
		time.Sleep(30 * time.Millisecond)
	case "twice":
		send(httptest.NewRecorder())
	}
	send(w)
}

// send passes a request on with a body.
func (p *proxy) send(w http.ResponseWriter, r *http.Request, body io.Reader) {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(body)
	p.to.ServeHTTP(w, again)
}

// environment names the store to packages that read it from there.
func environment(t *testing.T, url string) {
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3": url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

// state is a parameter of n elements that depend on a step.
func state(n, step int) ([]checkpoint.Item, []byte) {
	shape := tensor.Shape{n}
	b := make([]byte, 4*n)
	rng := rand.NewChaCha8([32]byte{byte(step)})
	_, _ = rng.Read(b) // cannot fail
	data := tensor.Of(tensor.NewBuffer(b, len(b), tensor.Params, nil), tensor.F32, 0, n)
	return []checkpoint.Item{{Kind: checkpoint.Param, Shard: tensor.Shard{Name: "w", DType: tensor.F32, Shape: shape, Box: tensor.FullBox(shape), Data: data}}}, b
}

func store(t *testing.T, dir string) *checkpoint.Store {
	s, err := checkpoint.NewStore("", "a-run", checkpoint.Config{Dir: dir, Keep: checkpoint.Keep{KeepLastN: 2}}, checkpoint.SingleProcess{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestServer saves, lists, loads and deletes on the store, with a multipart upload in parts of 8 MiB, then through the
// proxy, which spoils one request in six.
func TestServer(t *testing.T) {
	url, _ := serve(t)
	for _, rate := range []float64{0, 1.0 / 6} {
		t.Run(fmt.Sprintf("faults %.2f", rate), func(t *testing.T) {
			p, at := newProxy(t, url)
			environment(t, at)
			p.rate = rate
			dir := fmt.Sprintf("s3://%s/run-%d", bucket, int(100*rate))
			for step := 1; step <= 8; step++ {
				n := 1000
				if step == 8 {
					n = 5 << 20 // 20 MiB: three parts
				}
				items, want := state(n, step)
				if _, err := store(t, dir).Save(t.Context(), checkpoint.Meta{Step: step}, items); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				items, got := state(n, 0)
				r, err := store(t, dir).Resume(t.Context(), "auto", items, checkpoint.LoadOptions{})
				if err != nil || r.Meta.Step != step || string(got) != string(want) {
					t.Fatalf("step %d: %v, %v", step, r, err)
				}
			}
			found, err := checkpoint.List(dir)
			if err != nil || len(found) != 2 || found[0].Err != nil || found[1].Err != nil {
				t.Fatal(found, err)
			}
			if err := checkpoint.Remove(dir, found[1].Path); err != nil {
				t.Fatal(err)
			}
			if found, err = checkpoint.List(dir); err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			t.Logf("requests: %v", p.n)
		})
	}
}

// TestConditionalWrite: of several writers one succeeds.
func TestConditionalWrite(t *testing.T) {
	url, _ := serve(t)
	environment(t, url)
	c, err := objectstore.New(t.Context(), objectstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := objectstore.Path{Bucket: bucket, Key: "a/COMMIT"}
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = c.PutNew(context.Background(), at, []byte{byte('0' + i)}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, objectstore.ErrExists) {
			t.Fatal(err)
		}
	}
	if won != 1 {
		t.Fatalf("%d writers succeeded: %v", won, errs)
	}
}
