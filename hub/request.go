package hub

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// session is a Client with a source of files and progress.
type session struct {
	Client
	from source
	show *progress
}

// source has repositories.
type source interface {
	fetchListing(ctx context.Context, r repo, rev string) (*listing, error)
	// locate finds a file's size and tag.
	locate(ctx context.Context, d *download) error
	// fill appends the missing bytes of a file; progress is for session.retry.
	fill(ctx context.Context, p *part) (progress bool, err error)
	// digest returns a file's expected digest in hexadecimal and how to compute it; "": it has none.
	digest(d *download) (sum hash.Hash, want string)
	String() string // its address
	close()
}

func (c Client) newSession() *session {
	return &session{Client: c, show: newProgress(c.Progress, c.Terminal)}
}

// server is a hub, with open connections.
type server struct {
	*session
	base *url.URL
	http *http.Client
}

// open returns a session with the hub.
func (c Client) open() (*session, error) {
	base, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	if c.Cache == "" {
		return nil, &Error{Text: "no cache directory", Try: "HF_HOME=DIR"}
	}
	s := &server{session: c.newSession(), base: base}
	transport := c.Transport
	if transport == nil {
		transport = newTransport()
	}
	// do follows redirects: it must drop the token, and read the file's headers from the redirect.
	s.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.from = s
	return s.session, nil
}

func (s *server) String() string { return s.base.String() }

func (s *server) close() {
	if s.Transport == nil {
		s.http.CloseIdleConnections()
	}
}

// answer is a response, and the file's headers seen on the way to it.
type answer struct {
	*http.Response
	commit string // X-Repo-Commit
	etag   string // X-Linked-Etag, or the hub's ETag; unquoted
	size   int64  // X-Linked-Size, or the hub's Content-Length; -1: unknown
}

const maxRedirects = 10

// do sends a request and follows redirects, with stay only on the hub's host. The caller closes the
// body. Connection errors are *transient.
func (s *server) do(ctx context.Context, method string, u *url.URL, header http.Header, stay bool) (*answer, error) {
	a := &answer{size: -1}
	for range maxRedirects {
		resp, err := s.once(ctx, method, u, header)
		if err != nil {
			return nil, err
		}
		a.Response = resp
		redirect := resp.StatusCode >= 301 && resp.StatusCode <= 308 && resp.Header.Get("Location") != ""
		if s.trusted(u) {
			a.note(redirect)
		}
		if !redirect {
			return a, nil
		}
		next, err := u.Parse(resp.Header.Get("Location"))
		if err != nil || next.Scheme != "https" && next.Scheme != "http" || next.Host == "" || next.Scheme == "http" && u.Scheme == "https" {
			resp.Body.Close()
			return nil, &Error{Kind: ErrUnreachable, Text: u.Host + " redirects to an invalid URL: " + readable(withoutQuery(resp.Header.Get("Location")))}
		}
		if stay && !s.trusted(next) {
			return a, nil
		}
		resp.Body.Close()
		u = next
	}
	a.Body.Close()
	return nil, &Error{Kind: ErrUnreachable, Text: fmt.Sprintf("%s redirects more than %d times", s.base, maxRedirects)}
}

// note reads the file's headers.
func (a *answer) note(redirect bool) {
	h := a.Header
	if v := h.Get("X-Repo-Commit"); v != "" {
		a.commit = v
	}
	linked := h.Get("X-Linked-Etag")
	if linked == "" && !redirect && a.etag == "" {
		linked = h.Get("ETag")
	}
	if linked != "" {
		a.etag = plainETag(linked)
	}
	if n, err := strconv.ParseInt(h.Get("X-Linked-Size"), 10, 64); err == nil && n >= 0 {
		a.size = n
	} else if !redirect && a.size < 0 && a.StatusCode == http.StatusOK {
		a.size = a.ContentLength
	}
}

// plainETag is an entity tag without W/ and quotes.
func plainETag(s string) string { return strings.Trim(strings.TrimPrefix(s, "W/"), `"`) }

// trusted reports whether the token may be sent to u: to the endpoint's scheme, host and port.
func (s *server) trusted(u *url.URL) bool {
	return u.Scheme == s.base.Scheme && strings.EqualFold(u.Hostname(), s.base.Hostname()) && port(u) == port(s.base)
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// once sends one request. Its body returns errStalled if nothing arrives for too long.
func (s *server) once(ctx context.Context, method string, u *url.URL, header http.Header) (*http.Response, error) {
	within, cancel := context.WithCancelCause(ctx)
	b := &body{ctx: within, cancel: cancel, stall: s.stall()}
	b.timer = time.AfterFunc(b.stall, func() { cancel(errStalled) })
	req, err := http.NewRequestWithContext(within, method, u.String(), nil)
	if err != nil {
		b.stop()
		return nil, fmt.Errorf("hub: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "trireme")
	req.Header.Set("Accept-Encoding", "identity") // sizes and tags are of the plain file
	if s.Token != "" && s.trusted(u) {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		err = b.cause(err)
		b.stop()
		if ctx.Err() != nil {
			return nil, stopped(ctx)
		}
		return nil, s.lost(u, err)
	}
	b.timer.Stop()
	b.ReadCloser = resp.Body
	resp.Body = b
	return resp, nil
}

func stopped(ctx context.Context) error { return fmt.Errorf("hub: stopped: %w", context.Cause(ctx)) }

// errStalled stops a request that receives nothing.
var errStalled = errors.New("timeout: no data received")

// body is a response body with a stall timeout.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.stall)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	return n, b.cause(err)
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.stop() // after Close: canceling drops the connection
	return err
}

func (b *body) stop() {
	b.timer.Stop()
	b.cancel(nil)
}

func (b *body) cause(err error) error {
	if err != nil && context.Cause(b.ctx) == errStalled {
		return errStalled
	}
	return err
}

// transient is an error that a retry may fix.
type transient struct {
	err  *Error
	dial bool          // no connection
	wait time.Duration // requested by the server
}

func (t *transient) Error() string { return t.err.Error() }
func (t *transient) Unwrap() error { return t.err }

// lost is the error of a request without a response.
func (s *server) lost(u *url.URL, err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // without the URL, which may have a signature
	}
	var op *net.OpError
	why, dial := err.Error(), errors.As(err, &op) && op.Op == "dial"
	if dial {
		why = op.Err.Error()
	}
	e := &Error{Kind: ErrUnreachable, Text: u.Scheme + "://" + u.Host + " cannot be reached: " + readable(why), Err: err}
	if dial && s.trusted(u) {
		e.Kind, e.Try = ErrNoConnection, "a local path, HF_ENDPOINT=https://MIRROR, or HF_HUB_OFFLINE=1 to use only the cache"
	}
	return &transient{dial: dial, err: e}
}

// tries is the number of attempts of a request.
const tries = 5

// maxWait is the longest wait accepted from a server.
const maxWait = 5 * time.Minute

// retry calls f until it succeeds, fails permanently, or has failed tries times in a row; dials
// limits attempts without a connection. f reports whether it made progress.
func (s *session) retry(ctx context.Context, dials int, f func() (progress bool, err error)) error {
	wait := s.backoff()
	for n := 1; ; n++ {
		progress, err := f()
		var t *transient
		if !errors.As(err, &t) {
			return err
		}
		if progress {
			n, wait = 1, s.backoff()
		}
		if n >= tries || t.dial && n >= dials || t.wait > maxWait {
			return t.err
		}
		pause := max(wait, t.wait)
		if !t.dial || dials == tries { // else reported at the end, with the state of the cache
			s.show.note("%s; retrying in %s", t.err.Text, pause.Round(time.Millisecond))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return stopped(ctx)
		}
		wait *= 2
	}
}

func withoutQuery(address string) string {
	address, _, _ = strings.Cut(address, "?")
	return address
}
