package hub

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Client is a hub endpoint and a cache. Cache must be set; other fields have defaults.
type Client struct {
	Endpoint string // "": https://huggingface.co
	Token    string // "": none
	Cache    string // directory of models--OWNER--NAME
	Objects  string // directory of copies of objects; "": beside Cache, in s3
	Offline  bool   // use only the cache

	// Progress receives warnings and download progress, a line every few seconds; nil: discarded.
	Progress io.Writer
	// Terminal draws a progress bar instead.
	Terminal bool

	// Transport sends requests. nil: net/http's, with the environment's proxies.
	Transport http.RoundTripper
	// Backoff is the wait before the first retry of a request; it doubles each time. 0: one second.
	Backoff time.Duration
	// StallTimeout is how long a download may receive nothing before it is retried. 0: 30 s.
	StallTimeout time.Duration

	free func() int64 // free bytes on the cache's disk; nil: from the operating system
}

// FromEnv returns a client configured as by huggingface_hub: HF_HUB_CACHE, else HF_HOME/hub, else
// XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub; HF_ENDPOINT; HF_TOKEN, else the
// file HF_TOKEN_PATH, else HF_HOME/token; Objects is HF_HOME/s3; HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE. lookup is
// os.LookupEnv or a substitute. An invalid endpoint or unreadable token file is an error.
func FromEnv(lookup func(string) (string, bool)) (Client, error) {
	get := func(name string) string {
		v, _ := lookup(name)
		return v
	}
	envPath := func(name, otherwise string) string {
		v := get(name)
		if v == "" {
			return otherwise
		}
		v = os.Expand(v, get)
		if v == "~" || strings.HasPrefix(v, "~/") {
			v = filepath.Join(get("HOME"), v[1:])
		}
		return v
	}
	home := envPath("HF_HOME", filepath.Join(envPath("XDG_CACHE_HOME", filepath.Join(get("HOME"), ".cache")), "huggingface"))
	c := Client{
		Endpoint: get("HF_ENDPOINT"), Token: strings.TrimSpace(get("HF_TOKEN")),
		Cache:   envPath("HF_HUB_CACHE", filepath.Join(home, "hub")),
		Offline: isTrue(get("HF_HUB_OFFLINE")) || isTrue(get("TRANSFORMERS_OFFLINE")),
	}
	abs, err := filepath.Abs(c.Cache)
	if err != nil {
		return c, &Error{Text: "no cache directory: " + err.Error(), Try: "HF_HOME=DIR", Err: err}
	}
	c.Cache = abs
	if c.Objects, err = filepath.Abs(filepath.Join(home, "s3")); err != nil {
		return c, &Error{Text: "no cache directory: " + err.Error(), Try: "HF_HOME=DIR", Err: err}
	}
	if c.Token == "" {
		file := envPath("HF_TOKEN_PATH", filepath.Join(home, "token"))
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return c, &Error{Text: "the token: " + err.Error(), Err: err}
		}
		c.Token = strings.TrimSpace(string(b))
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return c, &Error{Kind: ErrAuth, Text: "the token (HF_TOKEN or the file HF_TOKEN_PATH) has invalid characters", Try: "HF_TOKEN=hf_..."}
	}
	_, err = c.endpoint()
	return c, err
}

func isTrue(v string) bool {
	switch strings.ToUpper(v) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// endpoint is the server's URL without a trailing slash.
func (c Client) endpoint() (*url.URL, error) {
	text := c.Endpoint
	if text == "" {
		text = "https://huggingface.co"
	}
	u, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, &Error{Text: "HF_ENDPOINT is not a server URL: " + readable(text), Try: "HF_ENDPOINT=https://huggingface.co", Err: err}
	}
	return u, nil
}

// newTransport is net/http's with timeouts.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   downloads,
		IdleConnTimeout:       30 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
	}
}

func (c Client) backoff() time.Duration {
	if c.Backoff <= 0 {
		return time.Second
	}
	return c.Backoff
}

func (c Client) stall() time.Duration {
	if c.StallTimeout <= 0 {
		return 30 * time.Second
	}
	return c.StallTimeout
}
