package objectstore

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"trireme/fault"
)

const scheme = "s3://"

// IsURL reports whether a path is in an object store.
func IsURL(path string) bool { return strings.HasPrefix(path, scheme) }

// Path is an object, or a prefix of objects as a directory.
type Path struct {
	Bucket string
	Key    string // without "/" at the ends; empty: the bucket
}

func (p Path) String() string {
	if p.Key == "" {
		return scheme + p.Bucket
	}
	return scheme + p.Bucket + "/" + p.Key
}

// Join appends names to the key.
func (p Path) Join(names ...string) Path {
	for _, name := range names {
		p.Key = strings.TrimPrefix(p.Key+"/"+name, "/")
	}
	return p
}

// prefix is the prefix of the keys in the directory p.
func (p Path) prefix() string {
	if p.Key == "" {
		return ""
	}
	return p.Key + "/"
}

// maxKey is the longest key of S3, in bytes.
const maxKey = 1024

// Parse parses s3://BUCKET/KEY. A key is valid UTF-8 of parts other than "", "." and "..", as a file's path is.
func Parse(url string) (Path, error) {
	rest, ok := strings.CutPrefix(url, scheme)
	if !ok {
		return Path{}, fmt.Errorf("%q is not an s3:// path", url)
	}
	bucket, key, _ := strings.Cut(rest, "/")
	p := Path{bucket, strings.TrimSuffix(key, "/")}
	switch {
	case !validBucket(p.Bucket):
		return Path{}, fault.Try(fmt.Errorf("%q has no valid name of a bucket", url), "s3://BUCKET/KEY with 3 to 63 small letters, digits, \".\" and \"-\" as BUCKET")
	case p.Key != "" && !validKey(p.Key):
		return Path{}, fault.Try(fmt.Errorf("%q has no valid key", url), "up to %d bytes of text without empty parts, \".\" and \"..\" between slashes", maxKey)
	}
	return p, nil
}

// below returns the rest of a key that a store listed; false if it is not below the directory p, or no valid path.
func (p Path) below(key string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(key, p.prefix())
	return rest, ok && validKey(rest) && len(key) <= maxKey
}

func validBucket(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 'a' && b <= 'z', b >= '0' && b <= '9':
		case (b == '.' || b == '-' || b == '_') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return len(s) >= 3 && len(s) <= 63 && !strings.Contains(s, "..")
}

func validKey(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	control := strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
	return len(s) <= maxKey && utf8.ValidString(s) && !control
}

// Join appends names to a path of the file system or of an object store.
func Join(path string, names ...string) string {
	if !IsURL(path) {
		return filepath.Join(append([]string{path}, names...)...)
	}
	for _, name := range names {
		path = strings.TrimRight(path, "/") + "/" + name
	}
	return path
}

// Dir returns the directory of a path, cleaned.
func Dir(path string) string {
	if !IsURL(path) {
		return filepath.Dir(path)
	}
	path = Clean(path)
	if i := strings.LastIndexByte(path, '/'); i > len(scheme) {
		return path[:i]
	}
	return path
}

// Clean removes what does not change a path.
func Clean(path string) string {
	if !IsURL(path) {
		return filepath.Clean(path)
	}
	return scheme + strings.Trim(strings.TrimPrefix(path, scheme), "/")
}
