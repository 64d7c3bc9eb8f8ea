package hub

import (
	"net/url"
	"path/filepath"
	"strings"
)

type repo struct {
	kind string // model or dataset
	id   string
}

// String formats the repository for messages.
func (r repo) String() string {
	if r.kind == "dataset" {
		return "data set " + r.id
	}
	return r.kind + " " + r.id
}

func (r repo) folder() string { return r.kind + "s--" + strings.ReplaceAll(r.id, "/", "--") }

func (r repo) path() string {
	if r.kind == "dataset" {
		return "datasets/" + r.id
	}
	return r.id
}

// list is the URL of a revision's file list.
func (s *session) list(r repo, rev string) *url.URL {
	u := s.address("api/"+r.kind+"s/"+r.id+"/revision", rev)
	u.RawQuery = "blobs=true"
	return u
}

func (s *session) resolve(r repo, commit, file string) *url.URL {
	return s.address(r.path()+"/resolve/"+commit, strings.Split(file, "/")...)
}

// address is a URL below the endpoint: plain needs no escaping, and slashes in elements are
// escaped, since branches may contain them.
func (s *session) address(plain string, elements ...string) *url.URL {
	u := *s.base
	u.Path, u.RawPath = s.base.Path+"/"+plain, s.base.EscapedPath()+"/"+plain
	for _, e := range elements {
		u.Path += "/" + e
		u.RawPath += "/" + url.PathEscape(e)
	}
	return &u
}

type cachedRepo struct {
	cache string
	repo
}

func (p cachedRepo) dir(elements ...string) string {
	return filepath.Join(append([]string{p.cache, p.folder()}, elements...)...)
}
