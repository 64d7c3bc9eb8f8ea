package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy allows this server's files and nothing else; a string never becomes HTML or a script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard protects h from other web pages and, with a token, from those who do not have it.
func guard(h http.Handler, token string) http.Handler {
	cookie := "trireme_ui"
	if token != "" { // cookies of a host are shared by its ports
		sum := sha256.Sum256([]byte(token))
		cookie += "_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Cache-Control", "no-store")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			head.Set("Allow", "GET, HEAD")
			fail(w, http.StatusMethodNotAllowed, "only GET is served")
		case token == "" && !named(r.Host):
			fail(w, http.StatusForbidden, "this host name is not served. try: the address that trireme ui printed")
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
			fail(w, http.StatusForbidden, "requests of other pages are not served")
		case token == "":
			h.ServeHTTP(w, r)
		case r.URL.Path == "/" && equal(r.URL.Query().Get("token"), token):
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			head.Set("Location", "./")
			w.WriteHeader(http.StatusSeeOther)
		case authorized(r, cookie, token):
			h.ServeHTTP(w, r)
		default:
			fail(w, http.StatusUnauthorized, "this page needs its token. try: the address that trireme ui printed")
		}
	})
}

func authorized(r *http.Request, cookie, token string) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return equal(bearer, token)
	}
	c, err := r.Cookie(cookie)
	return err == nil && equal(c.Value, token)
}

// equal compares secrets in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// named reports whether a Host header names this server by an address, or as localhost. Another name may be one that
// a foreign page let resolve to this machine.
func named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// NewToken returns a random token of 26 letters and digits.
func NewToken() string { return rand.Text() }
