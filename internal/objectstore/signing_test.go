package objectstore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// TestCredentialsRetried: a request for credentials that fails in the network is repeated like one to the store.
func TestCredentialsRetried(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(srv.Close)
	for fails, want := range map[int]bool{2: true, 3: false} {
		c, err := New(t.Context(), Options{Endpoint: srv.URL, AccessKey: "a", SecretKey: "b", Attempts: 3, Wait: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		left := fails
		c.sign.from = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			if left--; left >= 0 {
				return aws.Credentials{}, &net.OpError{Op: "dial", Err: errors.New("refused")}
			}
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		})
		err = c.Put(t.Context(), Path{"bucket", "a"}, nil)
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "no credentials: dial: refused (3 attempts") {
			t.Errorf("%d failures: %v", fails, err)
		}
	}
}
