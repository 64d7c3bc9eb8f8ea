package hubtest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Large is the minimum size of LFS files in bytes.
const Large = 64

// Fault may respond instead of the server. cdn distinguishes the two servers.
type Fault func(w http.ResponseWriter, r *http.Request, cdn bool) (answered bool)

// Server is a hub and its CDN. Fields must be set before the first request.
type Server struct {
	URL string // the endpoint

	NoBlobs       bool // listings have names only, as on some mirrors
	NoRanges      bool // the CDN ignores ranges
	RedirectSmall bool // small files are redirected on the same host, as by the current hub

	mu       sync.Mutex
	repos    map[string]*repo // by kind and id
	requests []string
	fault    Fault

	hub, cdn *httptest.Server
}

type repo struct {
	refs    map[string]string // revision -> commit
	commits map[string]map[string]string
	token   string // required
	gated   bool
	moved   string // new id
}

// New starts a server without repositories.
func New() *Server {
	s := &Server{repos: map[string]*repo{}}
	s.hub = httptest.NewServer(s.serve(s.serveHub, false))
	s.cdn = httptest.NewServer(s.serve(s.serveCDN, true))
	s.URL = s.hub.URL
	return s
}

// Close stops both servers.
func (s *Server) Close() {
	s.hub.Close()
	s.cdn.Close()
}

func key(kind, id string) string { return kind + "s/" + id }

// Commit sets the files of a repository's main branch and returns the commit.
func (s *Server) Commit(kind, id string, files map[string]string) (commit string) {
	h := sha1.New()
	fmt.Fprintln(h, kind, id)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %q\n", name, files[name])
	}
	commit = hex.EncodeToString(h.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repos[key(kind, id)]
	if r == nil {
		r = &repo{refs: map[string]string{}, commits: map[string]map[string]string{}}
		s.repos[key(kind, id)] = r
	}
	r.commits[commit], r.refs["main"] = maps.Clone(files), commit
	return commit
}

// Ref sets a branch or tag.
func (s *Server) Ref(kind, id, name, commit string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[key(kind, id)].refs[name] = commit
}

// Protect requires a token; a gated repository can be listed without it.
func (s *Server) Protect(kind, id, token string, gated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[key(kind, id)].token, s.repos[key(kind, id)].gated = token, gated
}

// Rename changes a repository's id; the old one redirects to it.
func (s *Server) Rename(kind, from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos[key(kind, to)] = s.repos[key(kind, from)]
	s.repos[key(kind, from)] = &repo{moved: to}
}

// Requests returns and clears the log, such as "GET /api/models/a/b/revision/main" and "cdn GET
// /sha256...".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

// Inject passes all further requests to f; nil stops that.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *Server) serve(next func(http.ResponseWriter, *http.Request), cdn bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		note := r.Method + " " + r.URL.EscapedPath()
		if v := r.Header.Get("Range"); v != "" {
			note += " " + v
		}
		if cdn {
			note = "cdn " + note
		}
		s.requests = append(s.requests, note)
		fault := s.fault
		s.mu.Unlock()
		if fault == nil || !fault(w, r, cdn) {
			next(w, r)
		}
	}
}

func fail(w http.ResponseWriter, status int, code, message string) {
	if code != "" {
		w.Header().Set("X-Error-Code", code)
	}
	w.Header().Set("X-Error-Message", message)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": message})
}

// serveHub resolves the repository and revision of a request.
func (s *Server) serveHub(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/resolve-cache")
	cached := path != r.URL.EscapedPath()
	api, isAPI := strings.CutPrefix(path, "/api/")
	kind, rest := "model", strings.TrimPrefix(path, "/")
	if isAPI {
		rest = api
	}
	if after, ok := strings.CutPrefix(rest, "datasets/"); ok {
		kind, rest = "dataset", after
	} else if isAPI || cached {
		rest = strings.TrimPrefix(rest, "models/")
	}
	id, action, rev, file := splitPath(rest, isAPI)
	s.mu.Lock()
	repo := s.repos[key(kind, id)]
	s.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case repo == nil && token == "", repo != nil && repo.token != "" && token == "" && !repo.gated:
		fail(w, http.StatusUnauthorized, "", "Invalid username or password.")
		return
	case repo == nil:
		fail(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		return
	case repo.moved != "":
		w.Header().Set("Location", strings.Replace(r.URL.RequestURI(), id, repo.moved, 1))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	case repo.token != "" && token != repo.token && token != "":
		fail(w, http.StatusUnauthorized, "", "Invalid credentials in Authorization header")
		return
	case repo.gated && token != repo.token && !isAPI:
		fail(w, http.StatusForbidden, "GatedRepo", "Access to model "+id+" is restricted.")
		return
	}
	s.mu.Lock()
	commit := repo.refs[rev]
	if repo.commits[rev] != nil {
		commit = rev
	}
	files := repo.commits[commit]
	s.mu.Unlock()
	if files == nil {
		fail(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+rev)
		return
	}
	switch action {
	case "revision", "":
		s.list(w, r, id, commit, files)
	case "tree":
		s.tree(w, files)
	case "resolve":
		w.Header().Set("X-Repo-Commit", commit)
		content, ok := files[file]
		if !ok {
			fail(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
			return
		}
		s.resolve(w, r, content, cached, "/api/resolve-cache/"+key(kind, id)+"/resolve/"+commit+"/"+file)
	default:
		http.NotFound(w, r)
	}
}

// splitPath parses ID/ACTION/REVISION/FILE.
func splitPath(path string, api bool) (id, action, rev, file string) {
	parts := strings.Split(path, "/")
	i := slices.IndexFunc(parts, func(p string) bool { return p == "resolve" || api && (p == "revision" || p == "tree") })
	if i < 0 || i+1 >= len(parts) {
		return path, "", "main", ""
	}
	rev, _ = url.PathUnescape(parts[i+1])
	file, _ = url.PathUnescape(strings.Join(parts[i+2:], "/"))
	return strings.Join(parts[:i], "/"), parts[i], rev, file
}

func sha256Of(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func gitOf(content string) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
	return hex.EncodeToString(sum[:])
}

func pointer(content string) string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sha256Of(content), len(content))
}

// ETag is the digest that names a blob.
func ETag(content string) string {
	if len(content) >= Large {
		return sha256Of(content)
	}
	return gitOf(content)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, id, commit string, files map[string]string) {
	siblings := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sibling := map[string]any{"rfilename": name}
		if content := files[name]; r.URL.Query().Has("blobs") && !s.NoBlobs {
			sibling["size"], sibling["blobId"] = len(content), gitOf(content)
			if len(content) >= Large {
				sibling["blobId"] = gitOf(pointer(content))
				sibling["lfs"] = map[string]any{"sha256": sha256Of(content), "size": len(content), "pointerSize": len(pointer(content))}
			}
		}
		siblings = append(siblings, sibling)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"id": id, "sha": commit, "private": false, "gated": false, "siblings": siblings})
}

func (s *Server) tree(w http.ResponseWriter, files map[string]string) {
	entries := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		e := map[string]any{"type": "file", "path": name, "size": len(content), "oid": gitOf(content)}
		if len(content) >= Large {
			e["oid"] = gitOf(pointer(content))
			e["lfs"] = map[string]any{"oid": sha256Of(content), "size": len(content), "pointerSize": len(pointer(content))}
		}
		entries = append(entries, e)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(entries)
}

// resolve serves a small file, and redirects a large one to the CDN.
func (s *Server) resolve(w http.ResponseWriter, r *http.Request, content string, cached bool, elsewhere string) {
	h := w.Header()
	if len(content) >= Large {
		h.Set("X-Linked-Etag", `"`+sha256Of(content)+`"`)
		h.Set("X-Linked-Size", fmt.Sprint(len(content)))
		h.Set("Location", s.cdn.URL+"/"+sha256Of(content)+"?X-Amz-Signature=secret")
		w.WriteHeader(http.StatusFound)
		return
	}
	if s.RedirectSmall && !cached {
		h.Set("X-Linked-Size", fmt.Sprint(len(content)))
		h.Set("X-Linked-Etag", `"`+gitOf(content)+`"`)
		h.Set("Location", elsewhere)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	h.Set("ETag", `"`+gitOf(content)+`"`)
	http.ServeContent(w, r, "", zero, strings.NewReader(content))
}
