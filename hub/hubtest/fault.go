package hubtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Status returns a status for paths with a prefix.
func Status(status int, prefix string) Fault {
	return func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		hit := strings.HasPrefix(r.URL.Path, prefix)
		if hit {
			w.WriteHeader(status)
		}
		return hit
	}
}

// Truncate sends up to n bytes of content from the CDN and closes the connection.
func Truncate(n int64, content string) Fault {
	return func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if !cdn {
			return false
		}
		var from int64
		if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			from, _ = strconv.ParseInt(strings.TrimSuffix(text, "-"), 10, 64)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		}
		rest := content[from:]
		w.Header().Set("Content-Length", strconv.Itoa(len(rest)))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		fmt.Fprint(w, rest[:min(n, int64(len(rest)))]) // the server closes the connection before Content-Length
		return true
	}
}
