package objectstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/internal/objectstore"
	"trireme/internal/objectstore/objectstoretest"
)

// signedOnly is a store that refuses requests without a signature.
func signedOnly(t *testing.T) (url string, srv *objectstoretest.Server) {
	srv = objectstoretest.New(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>")
			return
		}
		srv.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, srv
}

// environment has a store and nothing else.
func environment(t *testing.T, url string, more map[string]string) {
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3": url, "AWS_REGION": "us-east-1", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	for name, value := range more {
		t.Setenv(name, value)
	}
}

const keys = `{"Code": "Success", "AccessKeyId": "test", "SecretAccessKey": "secret", "Token": "t", "Expiration": "2100-01-01T00:00:00Z"}`

// TestRoleOfMachine: a role that is not there yet, or whose first requests fail, is asked for again when the store refuses
// requests without a signature.
func TestRoleOfMachine(t *testing.T) {
	var mu sync.Mutex
	asked, ready := 0, false
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasSuffix(r.URL.Path, "/token"):
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "token")
		case !ready:
			asked++
			w.WriteHeader(http.StatusNotFound)
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			fmt.Fprint(w, "role")
		default:
			fmt.Fprint(w, keys)
		}
	}))
	t.Cleanup(role.Close)
	url, srv := signedOnly(t)
	environment(t, url, map[string]string{"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": role.URL})
	c, err := objectstore.New(t.Context(), objectstore.Options{Attempts: 3, Wait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Put(t.Context(), at, []byte("x"))
	if err == nil || !strings.Contains(err.Error(), "no credentials were found (") || !strings.Contains(err.Error(), "try: AWS_ACCESS_KEY_ID") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	mu.Lock()
	if ready = true; asked != 2 {
		t.Errorf("the role was asked for %d times", asked)
	}
	mu.Unlock()
	if err := c.Put(t.Context(), at, []byte("x")); err != nil || string(srv.Get(at.Key)) != "x" {
		t.Fatalf("with a role: %v", err)
	}
}

// TestPublicBucket: without any credentials, requests are not signed, and the role is not asked for each time.
func TestPublicBucket(t *testing.T) {
	srv := objectstoretest.New(t)
	srv.Set(at.Key, []byte("x"))
	environment(t, srv.URL, nil)
	c, err := objectstore.New(t.Context(), objectstore.Options{Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.ReadAll(t.Context(), at, 10); err != nil || string(b) != "x" {
		t.Fatal(string(b), err)
	}
	if _, err := c.Head(t.Context(), objectstore.Path{Bucket: at.Bucket, Key: "none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// TestCredentialsFail: no signature never replaces configured credentials, and their error names them.
func TestCredentialsFail(t *testing.T) {
	var mu sync.Mutex
	status := http.StatusForbidden
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(status)
		if status == http.StatusOK {
			fmt.Fprint(w, keys)
		} else {
			fmt.Fprint(w, `{"code": "Refused", "message": "not\nyou"}`)
		}
	}))
	t.Cleanup(login.Close)
	srv := objectstoretest.New(t) // takes requests without a signature too
	environment(t, srv.URL, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": login.URL})
	c, err := objectstore.New(t.Context(), objectstore.Options{Attempts: 3, Wait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Put(t.Context(), at, []byte("x"))
	if !errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), "no credentials: ") || !strings.Contains(err.Error(), "try: AWS_PROFILE") || strings.Contains(err.Error(), "\n") {
		t.Fatal(err)
	}
	if srv.Requests() != 0 {
		t.Error("a request was sent without a signature")
	}
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	if err := c.Put(t.Context(), at, []byte("x")); err != nil {
		t.Fatalf("later: %v", err)
	}
}
