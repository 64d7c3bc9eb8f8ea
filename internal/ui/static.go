package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
)

//go:embed page
var embedded embed.FS

type asset struct {
	body       []byte
	kind, etag string
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// assets are the page's files by URL path.
func assets() (map[string]asset, error) {
	entries, err := fs.ReadDir(embedded, "page")
	if err != nil {
		return nil, err
	}
	files := map[string]asset{}
	for _, e := range entries {
		b, err := fs.ReadFile(embedded, "page/"+e.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		files["/"+e.Name()] = asset{b, kinds[path.Ext(e.Name())], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	files["/"] = files["/index.html"]
	return files, nil
}

func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Type", a.kind)
	head.Set("Cache-Control", "no-cache") // asked again each time, so that a new program's page is shown
	head.Set("ETag", a.etag)
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(a.body) // the client may be gone
}
