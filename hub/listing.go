package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

type file struct {
	name string
	size int64  // bytes; -1: unknown
	git  string // SHA-1 of the git object; "": unknown
	lfs  string // SHA-256 of an LFS file; "": not in LFS, or unknown
}

// etag is the digest of the content and the blob's name; "" if unknown.
func (f file) etag() string {
	if f.lfs != "" {
		return f.lfs
	}
	return f.git
}

// listing is the files of a commit, sorted by name.
type listing struct {
	commit string
	files  []file
}

func (l *listing) find(name string) (file, bool) {
	i, ok := slices.BinarySearchFunc(l.files, name, func(f file, name string) int { return strings.Compare(f.name, name) })
	if !ok {
		return file{}, false
	}
	return l.files[i], true
}

// maxListing bounds a response in bytes: about 100,000 files.
const maxListing = 64 << 20

func (s *server) fetchListing(ctx context.Context, r repo, rev string) (l *listing, err error) {
	// Two attempts to connect: the cache is a fallback.
	err = s.retry(ctx, 2, func() (bool, error) {
		u := s.list(r, rev)
		a, err := s.do(ctx, http.MethodGet, u, nil, false)
		if err != nil {
			return false, err
		}
		defer a.Body.Close()
		if err := s.responseError(a, r, rev, ""); err != nil {
			return false, err
		}
		b, err := io.ReadAll(io.LimitReader(a.Body, maxListing+1))
		switch {
		case ctx.Err() != nil:
			return false, stopped(ctx)
		case err != nil:
			return false, s.lost(u, err)
		case len(b) > maxListing:
			return false, &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("the file list of %s from %s exceeds %d MiB", r, s.base, maxListing>>20)}
		}
		if l, err = parseListing(b); err != nil {
			return false, &Error{Kind: ErrUnreachable, Text: fmt.Sprintf("invalid file list from %s: %v", s.base, err), Try: "HF_ENDPOINT=https://huggingface.co, or check the proxy", Err: err}
		}
		return true, nil
	})
	return l, err
}

func parseListing(b []byte) (*listing, error) {
	var reply struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
			Size *int64 `json:"size"`
			Git  string `json:"blobId"`
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   int64  `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	if err := json.Unmarshal(b, &reply); err != nil {
		return nil, jsonError(err)
	}
	if !isCommit(reply.SHA) {
		return nil, fmt.Errorf("its sha %q is not a commit", readable(reply.SHA))
	}
	l := &listing{commit: reply.SHA}
	for _, sibling := range reply.Siblings {
		f := file{name: sibling.Name, size: -1, git: sibling.Git}
		if sibling.Size != nil {
			f.size = *sibling.Size
		}
		if sibling.LFS != nil {
			f.lfs, f.size = sibling.LFS.SHA256, sibling.LFS.Size
		}
		l.files = append(l.files, f)
	}
	return l, l.check()
}

// maxFile bounds the size of a file in bytes, so that sums do not overflow.
const maxFile = 1 << 43

// check sorts and validates the files.
func (l *listing) check() error {
	slices.SortFunc(l.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	for i, f := range l.files {
		switch {
		case !validFile(f.name):
			return fmt.Errorf("it lists %q, not a valid path", readable(f.name))
		case i > 0 && f.name == l.files[i-1].name:
			return fmt.Errorf("it lists %s twice", f.name)
		case f.size < -1 || f.size > maxFile:
			return fmt.Errorf("invalid size of %s: %d", f.name, f.size)
		case f.lfs != "" && !validETag(f.lfs, 64), f.git != "" && !validETag(f.git, 40):
			return fmt.Errorf("invalid digest of %s", f.name)
		}
	}
	return nil
}

func validETag(s string, digits int) bool { return len(s) == digits && isHex(s) }

// tree is a listing in huggingface_hub's cache format. It is immutable.
type tree struct {
	Version int                 `json:"format_version"`
	Files   map[string]treeFile `json:"files"`
}

type treeFile struct {
	Size    int64  `json:"size"`
	Git     string `json:"blob_id"`
	LFS     string `json:"lfs_sha256,omitempty"`
	LFSSize *int64 `json:"lfs_size,omitempty"`
}

const treeVersion = 1

// formatTree encodes a listing for the cache; ok is false if sizes or digests are unknown.
func formatTree(l *listing) (b []byte, ok bool) {
	t := tree{Version: treeVersion, Files: map[string]treeFile{}}
	for _, f := range l.files {
		if f.size < 0 || f.git == "" {
			return nil, false
		}
		e := treeFile{Size: f.size, Git: f.git, LFS: f.lfs}
		if f.lfs != "" {
			e.LFSSize = &f.size
		}
		t.Files[f.name] = e
	}
	b, err := json.MarshalIndent(t, "", "  ")
	return b, err == nil
}

// parseTree parses the format of formatTree and huggingface_hub.
func parseTree(commit string, b []byte) (*listing, error) {
	var t tree
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, err
	}
	if t.Version != treeVersion {
		return nil, errors.New("unknown version")
	}
	l := &listing{commit: commit}
	for name, e := range t.Files {
		f := file{name: name, size: e.Size, git: e.Git, lfs: e.LFS}
		if e.LFSSize != nil {
			f.size = *e.LFSSize
		}
		l.files = append(l.files, f)
	}
	return l, l.check()
}
