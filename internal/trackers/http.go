package trackers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxReply bounds a reply that is read.
const maxReply = 1 << 20

// endpoint is a server that takes requests over HTTP.
type endpoint struct {
	base   string
	client *http.Client
	header http.Header // of every request; may have secrets
}

func newEndpoint(base string) *endpoint {
	return &endpoint{base: strings.TrimRight(base, "/"), client: &http.Client{
		// A redirect to another host would take the headers' secrets along.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, header: http.Header{}}
}

// statusError is a reply other than success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the server replied %d %s%s", e.code, http.StatusText(e.code), e.text)
}

// call posts a body and returns the reply. A status that a repetition does not change is a rejection.
func (e *endpoint) call(ctx context.Context, method, path, kind string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, rejection{err}
	}
	req.Header = e.header.Clone()
	req.Header.Set("Content-Type", kind)
	resp, err := e.client.Do(req)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the path
		}
		return nil, e.failed(ctx, err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s%s: %w", e.base, path, &statusError{resp.StatusCode, excerpt(e.redacted(reply))})
		if resp.StatusCode/100 != 5 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout {
			err = rejection{err}
		}
		return reply, err
	}
	if err != nil {
		return nil, e.failed(ctx, err)
	}
	return reply, nil
}

// failed is the error of a request without a whole reply.
func (e *endpoint) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = errors.New("no reply in time")
	}
	return fmt.Errorf("%s: %w", e.base, err)
}

// excerpt is the start of a reply's text, in one line.
func excerpt(reply []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(reply), "?")), " ")
	if text == "" {
		return ""
	}
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + " ..."
	}
	return ": " + text
}

// json posts a value as JSON and decodes the reply to out, unless nil.
func (e *endpoint) json(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return rejection{err}
	}
	return e.decode(ctx, http.MethodPost, path, body, out)
}

// get decodes the reply to a GET request to out.
func (e *endpoint) get(ctx context.Context, path string, out any) error {
	return e.decode(ctx, http.MethodGet, path, nil, out)
}

func (e *endpoint) decode(ctx context.Context, method, path string, body []byte, out any) error {
	reply, err := e.call(ctx, method, path, "application/json", body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(reply, out); err != nil {
		return e.foreign(path, err)
	}
	return nil
}

// foreign is the error of a reply by another program than the service.
func (e *endpoint) foreign(path string, err error) error {
	return rejection{fmt.Errorf("%s%s: the reply is not of this service: %w", e.base, path, err)}
}

// redacted returns a reply without the secrets of the request's headers, which a server may repeat.
func (e *endpoint) redacted(reply []byte) []byte {
	for _, values := range e.header {
		for _, secret := range values {
			if _, token, ok := strings.Cut(secret, " "); ok { // Bearer TOKEN
				secret = token
			}
			if secret != "" {
				reply = bytes.ReplaceAll(reply, []byte(secret), []byte("[secret]"))
			}
		}
	}
	return reply
}
