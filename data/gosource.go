package data

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"trireme/fault"
)

const (
	goSourceBytes   = 16 << 20
	goSourceLargest = 256 << 10 // larger files are tables
)

// GoSource lists Go source files of the standard library under root (GOROOT/src; empty finds it),
// sorted, up to maxBytes in total (0 is 16 MiB): real text on every machine with Go. Tests,
// commands, vendored and generated files and tables are excluded. If there is more than maxBytes,
// files are dropped evenly.
func GoSource(root string, maxBytes int64) ([]string, error) {
	if maxBytes == 0 {
		maxBytes = goSourceBytes
	}
	if root == "" {
		var err error
		if root, err = goRoot(); err != nil {
			return nil, err
		}
	}
	var files []string
	var sizes []int64
	total := int64(0)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (name == "testdata" || name == "vendor" || name == "cmd" || strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Size() == 0 || info.Size() > goSourceLargest {
			return nil
		}
		generated, err := isGenerated(path)
		if err != nil || generated {
			return err
		}
		files, sizes = append(files, path), append(sizes, info.Size())
		total += info.Size()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("data: go source: %w", err)
	}
	if len(files) == 0 {
		return nil, fault.Try(fmt.Errorf("data: %s has no Go source", root), "data.path: the folder src of a Go installation")
	}
	return thin(files, sizes, total, maxBytes), nil
}

// thin keeps about limit bytes of total, evenly.
func thin(files []string, sizes []int64, total, limit int64) []string {
	if total <= limit {
		return files
	}
	var kept []string
	var seen, used int64
	for i, f := range files {
		seen += sizes[i]
		if float64(used+sizes[i]) <= float64(seen)/float64(total)*float64(limit) {
			kept = append(kept, f)
			used += sizes[i]
		}
	}
	if len(kept) == 0 {
		return files[:1]
	}
	return kept
}

// isGenerated looks for the generated-code marker in the first 2 KiB.
func isGenerated(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, 2048)
	n, err := f.Read(head)
	if err != nil {
		return false, err
	}
	return bytes.Contains(head[:n], []byte("// Code generated ")), nil
}

// goRoot finds the standard library's source: the go command's, or in the usual directories.
func goRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	dirs := []string{"/usr/local/go", "/usr/lib/go", "/opt/homebrew/opt/go/libexec"}
	if err == nil {
		dirs = append([]string{strings.TrimSpace(string(out))}, dirs...)
	}
	for _, root := range dirs {
		if dir := filepath.Join(root, "src"); root != "" && isDir(filepath.Join(dir, "fmt")) {
			return dir, nil
		}
	}
	return "", fault.Try(errors.New("data: the Go standard library's source is not installed"), "%s with text files", fault.Set("data.path", "DIR"))
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
