package hub

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Name is what a user calls a repository.
type Name struct {
	ID       string // OWNER/NAME, or NAME
	Path     string // folder, file or pattern in a data set; "" is all of it
	Revision string // branch, tag or commit; "" is main
}

// String is the name as it is written.
func (n Name) String() string {
	s := n.ID
	if n.Path != "" {
		s += "/" + n.Path
	}
	if n.Revision != "" {
		s += "@" + n.Revision
	}
	return s
}

// Pinned tells whether the revision is a commit, which stays as it is.
func (n Name) Pinned() bool { return isCommit(n.Revision) }

func (n Name) revision() string {
	if n.Revision == "" {
		return "main"
	}
	return n.Revision
}

// ParseModel reads OWNER/NAME[@REVISION] or NAME[@REVISION]; ok is false for what cannot be a
// model's name, such as ./dir or model.safetensors.
func ParseModel(s string) (n Name, ok bool) {
	n, ok = parse(s)
	return n, ok && n.Path == ""
}

// ParseDataset reads OWNER/NAME[/PATH][@REVISION] or NAME[@REVISION], where PATH is a folder, a
// file or a pattern of path.Match; ok is false for what cannot be a data set's name, such as
// train.jsonl. A PATH that ends as a file does needs the revision: without one it is a path on
// this machine.
func ParseDataset(s string) (n Name, ok bool) { return parse(s) }

func parse(s string) (n Name, ok bool) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s, n.Revision = s[:i], s[i+1:]
		if !validRevision(n.Revision) {
			return Name{}, false
		}
	}
	parts := strings.SplitN(s, "/", 3)
	n.ID = strings.Join(parts[:min(2, len(parts))], "/")
	if len(parts) == 3 {
		n.Path = parts[2]
		if _, err := path.Match(n.Path, ""); err != nil || !validFile(n.Path) {
			return Name{}, false
		}
	}
	if !validID(n.ID) || isFile(n.ID) || isFile(n.Path) && n.Revision == "" {
		return Name{}, false
	}
	return n, true
}

func isFile(name string) bool { return slices.Contains(fileEndings, strings.ToLower(path.Ext(name))) }

// fileEndings are of files: whoever writes one means a file on this machine.
var fileEndings = []string{
	".bin", ".csv", ".gguf", ".go", ".gz", ".json", ".jsonl", ".md", ".model", ".ndjson", ".npy", ".parquet", ".pt",
	".pth", ".safetensors", ".tok", ".tsv", ".txt", ".yaml", ".yml", ".zip", ".zst",
}

// validID tells whether the hub could have a repository of that name: one or two parts of
// letters, digits and -_. that begin and end with none of - and ., at most 96 characters.
func validID(id string) bool {
	if len(id) > 96 || strings.Contains(id, "--") || strings.Contains(id, "..") || strings.HasSuffix(id, ".git") {
		return false
	}
	for part := range strings.SplitSeq(id, "/") {
		if part == "" || strings.Trim(part, "-.") != part || strings.Trim(part, nameLetters) != "" {
			return false
		}
	}
	return strings.Count(id, "/") < 2
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

// validRevision tells whether git could have a branch or tag of that name, or a commit, which
// is a path below refs.
func validRevision(rev string) bool {
	return validFile(rev) && !strings.ContainsAny(rev, " ~^:?*[\\@") && !strings.Contains(rev, "..") && !strings.HasSuffix(rev, ".lock")
}

// validFile tells whether a name is a path that stays in its folder, and that a file system
// and a terminal take.
func validFile(name string) bool {
	if !fs.ValidPath(name) || name == "." || len(name) > 1024 {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// isCommit tells whether a text is a commit's hash.
func isCommit(s string) bool { return len(s) == 40 && isHex(s) }

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }
