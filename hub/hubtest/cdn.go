package hubtest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// zero disables Last-Modified.
var zero time.Time

// blobs returns the large files of all repositories by SHA-256.
func (s *Server) blobs() map[string]string {
	all := map[string]string{}
	for _, r := range s.repos {
		for _, files := range r.commits {
			for _, content := range files {
				if len(content) >= Large {
					all[sha256Of(content)] = content
				}
			}
		}
	}
	return all
}

func (s *Server) serveCDN(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		http.Error(w, "only one auth mechanism allowed", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	content, ok := s.blobs()[strings.TrimPrefix(r.URL.Path, "/")]
	s.mu.Unlock()
	if !ok || r.URL.Query().Get("X-Amz-Signature") != "secret" {
		http.Error(w, "denied", http.StatusForbidden)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%x-1"`, len(content))) // not a digest, as S3's for multipart uploads
	if s.NoRanges {
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", zero, strings.NewReader(content))
}
