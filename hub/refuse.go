package hub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// howToToken is the suggestion if a token is needed.
const howToToken = "HF_TOKEN=hf_..., a token of https://huggingface.co/settings/tokens"

// responseError returns the error of an unsuccessful response, or nil; a *transient if a retry may
// help. file is the requested file, "" for the file list.
func (s *server) responseError(a *answer, r repo, rev, file string) error {
	if a.StatusCode < 300 {
		return nil
	}
	code, message := a.Header.Get("X-Error-Code"), a.message()
	reply := ""
	if message != "" {
		reply = " (server: " + message + ")"
	}
	e := &Error{Kind: ErrNotFound, Text: fmt.Sprintf("%s has no %s%s", s.base, r, reply)}
	switch status := a.StatusCode; {
	case code == "RepoNotFound":
		e.Text = fmt.Sprintf("%s has no %s, or it is private and this token has no access", s.base, r)
		if s.Token == "" {
			e.Text = fmt.Sprintf("%s has no %s, or it is private and needs a token", s.base, r)
		}
	case code == "RevisionNotFound":
		e.Text, e.Err = fmt.Sprintf("%s at %s has no revision %s", r, s.base, rev), errNoRevision
	case code == "EntryNotFound" || status == http.StatusNotFound && file != "":
		e.Text = fmt.Sprintf("%s at %s has no file %s", r, s.base, file)
	case code == "GatedRepo":
		e.Kind = ErrAuth
		e.Text = fmt.Sprintf("%s at %s is gated: access must be requested%s", r, s.base, reply)
		e.Try = fmt.Sprintf("accept its terms at %s/%s, then HF_TOKEN=hf_... of that account", s.base, r.path())
	case status == http.StatusUnauthorized && s.Token == "":
		e.Kind, e.Try = ErrAuth, howToToken
		e.Text = fmt.Sprintf("%s has no %s, or it is private and needs a token%s", s.base, r, reply)
	case status == http.StatusUnauthorized:
		e.Kind, e.Try = ErrAuth, howToToken
		e.Text = fmt.Sprintf("%s rejects the token for %s%s", s.base, r, reply)
	case status == http.StatusForbidden:
		e.Kind, e.Try = ErrAuth, howToToken
		e.Text = fmt.Sprintf("%s denies access to %s%s", s.base, r, reply)
	case status == http.StatusNotFound || status == http.StatusGone:
	default:
		e.Kind = ErrUnreachable
		e.Text = fmt.Sprintf("%s returned %d %s%s", s.host(a), status, http.StatusText(status), reply)
		if status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500 {
			return &transient{err: e, wait: pause(a.Header, time.Now())}
		}
	}
	return e
}

// host is the server that responded.
func (s *server) host(a *answer) string {
	if u := a.Request.URL; !s.trusted(u) {
		return u.Scheme + "://" + u.Host
	}
	return s.base.String()
}

func (a *answer) message() string {
	if m := readable(a.Header.Get("X-Error-Message")); m != "" {
		return m
	}
	var reply struct{ Error string }
	b, err := io.ReadAll(io.LimitReader(a.Body, 4096))
	if err != nil || json.Unmarshal(b, &reply) != nil {
		return "" // HTML, for example
	}
	return readable(reply.Error)
}

// resets matches the hub's rate limit header: RateLimit: "api";r=0;t=55.
var resets = regexp.MustCompile(`;\s*t=(\d{1,6})\b`)

// pause is the wait that a response requests; 0: none.
func pause(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	if m := resets.FindStringSubmatch(h.Get("RateLimit")); m != nil && strings.Contains(h.Get("RateLimit"), "r=0") {
		n, _ := strconv.Atoi(m[1]) // six digits, cannot fail
		return time.Duration(n) * time.Second
	}
	return 0
}
