package hub

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Name is the name of a repository.
type Name struct {
	ID       string // OWNER/NAME, or NAME
	Path     string // folder, file or pattern in a data set; "": all of it
	Revision string // branch, tag or commit; "": main
}

// String formats the name.
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

// Pinned reports whether the revision is a commit, which is immutable.
func (n Name) Pinned() bool { return isCommit(n.Revision) }

func (n Name) revision() string {
	if n.Revision == "" {
		return "main"
	}
	return n.Revision
}

// ParseModel parses OWNER/NAME[@REVISION] or NAME[@REVISION]; ok is false for what is not a model's
// name, such as ./dir or model.safetensors.
func ParseModel(s string) (n Name, ok bool) {
	n, ok = parse(s)
	return n, ok && n.Path == ""
}

// ParseDataset parses OWNER/NAME[/PATH][@REVISION] or NAME[@REVISION], where PATH is a folder, file
// or path.Match pattern; ok is false for what is not a data set's name, such as train.jsonl. A PATH
// with a file extension needs a revision: without one it is a local path.
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

// fileEndings are extensions that indicate a local file.
var fileEndings = []string{
	".bin", ".csv", ".gguf", ".go", ".gz", ".json", ".jsonl", ".md", ".model", ".ndjson", ".npy", ".parquet", ".pt",
	".pth", ".safetensors", ".tok", ".tsv", ".txt", ".yaml", ".yml", ".zip", ".zst",
}

// validID reports whether id is a valid repository name: one or two parts of letters, digits and
// -_., not starting or ending with - or ., up to 96 characters.
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

// validRevision reports whether rev is a valid git branch, tag or commit, and a path below refs.
func validRevision(rev string) bool {
	return validFile(rev) && !strings.ContainsAny(rev, " ~^:?*[\\@") && !strings.Contains(rev, "..") && !strings.HasSuffix(rev, ".lock")
}

// validFile reports whether name is a relative path within its folder, valid for a file system and
// printable.
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

func isCommit(s string) bool { return len(s) == 40 && isHex(s) }

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }
