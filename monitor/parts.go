package monitor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trireme/internal/durable"
)

// Part is one file of a run's records. Parts have consecutive lines in the order of their numbers.
type Part struct {
	Path   string
	Number int // from 1
}

// Parts lists the files of the records at path, usually metrics.jsonl: full parts, metrics-000001.jsonl and
// so on, then path itself if it exists, which has the newest lines.
func Parts(path string) ([]Part, error) {
	dir, base := filepath.Split(path)
	ext := filepath.Ext(base)
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	var parts []Part
	newest := false
	for _, e := range entries {
		if e.Name() == base {
			newest = true
			continue
		}
		digits := strings.TrimSuffix(strings.TrimPrefix(e.Name(), strings.TrimSuffix(base, ext)+"-"), ext)
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && partPath(path, n) == dir+e.Name() {
			parts = append(parts, Part{dir + e.Name(), n})
		}
	}
	slices.SortFunc(parts, func(a, b Part) int { return a.Number - b.Number })
	if newest {
		n := 1
		if len(parts) > 0 {
			n = parts[len(parts)-1].Number + 1
		}
		parts = append(parts, Part{path, n})
	}
	return parts, nil
}

// partPath returns the name of full part n.
func partPath(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%06d%s", strings.TrimSuffix(path, ext), n, ext)
}

// truncate removes the lines of steps after last, and in the part that has the last kept one also invalid lines. The
// part becomes the newest. Later parts are removed first, the newest before the others, so the parts have a
// beginning of the records whenever the process ends.
func truncate(path string, last int64) error {
	parts, err := Parts(path)
	if err != nil || len(parts) == 0 {
		return err
	}
	keep := len(parts) - 1 // the part to shorten: the first after which no part has a step to keep
	for keep > 0 {
		first, err := firstStep(parts[keep].Path)
		if err != nil {
			return err
		}
		if first >= 0 && first <= last {
			break
		}
		keep--
	}
	for i := len(parts) - 1; i > keep; i-- {
		if err := os.Remove(parts[i].Path); err != nil {
			return err
		}
	}
	at := parts[keep].Path
	if err := shorten(at, last); err != nil {
		return err
	}
	if at == path {
		return nil
	}
	if err := os.Rename(at, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// firstStep returns the step of the first valid line of a file; -1 if there is none.
func firstStep(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return -1, nil
		}
		if err != nil {
			return 0, err
		}
		switch rec, eval, err := Parse(bytes.TrimSpace(line)); {
		case err != nil:
		case rec != nil:
			return rec.Step, nil
		default:
			return eval.Step, nil
		}
	}
}

// shorten atomically removes the lines of steps after last, and invalid lines.
func shorten(path string, last int64) error {
	old, err := os.Open(path)
	if err != nil {
		return err
	}
	defer old.Close()
	return durable.Replace(path, 0o644, func(tmp *os.File) error {
		w, r := bufio.NewWriter(tmp), bufio.NewReader(old)
		for {
			line, err := r.ReadBytes('\n')
			if err == io.EOF {
				return w.Flush() // drop a torn line
			}
			if err != nil {
				return err
			}
			rec, eval, err := Parse(bytes.TrimSpace(line))
			if err != nil || rec != nil && rec.Step > last || eval != nil && eval.Step > last {
				continue
			}
			w.Write(line)
		}
	})
}

// moveAside renames the records to metrics.1.jsonl and so on, with their parts metrics.1-000001.jsonl. The newest
// is last, so that a call after a crash continues with the same name.
func moveAside(path string) error {
	parts, err := Parts(path)
	if err != nil || len(parts) == 0 {
		return err
	}
	if st, err := os.Lstat(path); len(parts) == 1 && err == nil && st.Mode().IsRegular() && st.Size() == 0 {
		return nil
	}
	ext := filepath.Ext(path)
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), n, ext)
		if _, err := os.Lstat(name); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for i, p := range parts {
			to := name
			if i < len(parts)-1 {
				to = partPath(name, p.Number)
			}
			if err := os.Rename(p.Path, to); err != nil {
				return err
			}
		}
		return nil
	}
}
