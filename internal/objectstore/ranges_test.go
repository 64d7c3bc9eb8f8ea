package objectstore_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"trireme/internal/objectstore"
)

// TestWrongRanges: an answer with other bytes than those asked for is an error of one line, at once.
func TestWrongRanges(t *testing.T) {
	for _, header := range []string{"bytes 5-9/10", "bytes 0-9/5", "bytes 0-99999999/100000000", "items 0-1/2", "bytes */10", "bytes 0-1/10"} {
		requests := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.Header().Set("Content-Range", header)
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "0123456789")
		}))
		c, err := objectstore.New(t.Context(), objectstore.Options{Endpoint: srv.URL, AccessKey: "a", SecretKey: "b"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Open(t.Context(), at)
		if err == nil || !strings.Contains(err.Error(), header) || !strings.Contains(err.Error(), "try: ") || strings.Contains(err.Error(), "\n") || requests != 1 {
			t.Errorf("%s: %d requests, %v", header, requests, err)
		}
		srv.Close()
	}
}
