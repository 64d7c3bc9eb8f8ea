package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"strings"
)

type repo struct {
	kind   string // model or dataset
	id     string
	stored string // of objects: the folder of their bucket in the cache; "": the hub
}

// String formats the repository for messages.
func (r repo) String() string {
	switch {
	case r.stored != "":
		return r.id
	case r.kind == "dataset":
		return "data set " + r.id
	}
	return r.kind + " " + r.id
}

// at formats a revision for messages. Objects have none.
func (r repo) at(rev string) string { return r.with(" at " + rev) }

func (r repo) of(rev string) string { return r.with(" of " + rev) }

func (r repo) with(revision string) string {
	if r.stored != "" {
		return r.String()
	}
	return r.String() + revision
}

// ref is the file of a revision's commit. The URLs of a bucket share a folder, so that they share blobs.
func (r repo) ref(rev string) string {
	if r.stored == "" {
		return rev
	}
	sum := sha256.Sum256([]byte(r.kind + " " + r.id))
	return hex.EncodeToString(sum[:])
}

func (r repo) folder() string {
	if r.stored != "" {
		return r.stored
	}
	return r.kind + "s--" + strings.ReplaceAll(r.id, "/", "--")
}

func (r repo) path() string {
	if r.kind == "dataset" {
		return "datasets/" + r.id
	}
	return r.id
}

// list is the URL of a revision's file list.
func (s *server) list(r repo, rev string) *url.URL {
	u := s.address("api/"+r.kind+"s/"+r.id+"/revision", rev)
	u.RawQuery = "blobs=true"
	return u
}

func (s *server) resolve(r repo, commit, file string) *url.URL {
	return s.address(r.path()+"/resolve/"+commit, strings.Split(file, "/")...)
}

// address is a URL below the endpoint: plain needs no escaping, and slashes in elements are
// escaped, since branches may contain them.
func (s *server) address(plain string, elements ...string) *url.URL {
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
