package ui

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type traceFile struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	time  time.Time
}

type tracesAnswer struct {
	Schema string      `json:"schema"`
	Files  []traceFile `json:"files"`
}

// traces lists a run's trace files, the newest last.
func (s *Server) traces(r *http.Request) (any, error) {
	e, err := s.store.one(r)
	if err != nil {
		return nil, err
	}
	return tracesAnswer{"trireme.ui.traces/1", traceFiles(e.path)}, nil
}

func traceFiles(dir string) []traceFile {
	files := []traceFile{}
	entries, _ := os.ReadDir(filepath.Join(dir, "trace")) // no directory: no traces
	for _, e := range entries {
		st, err := e.Info()
		name := e.Name()
		if err != nil || !st.Mode().IsRegular() || st.Size() == 0 || strings.HasPrefix(name, ".") {
			continue
		}
		if slices.ContainsFunc([]string{".perfetto-trace", ".pftrace", ".json", ".json.gz"}, func(ext string) bool { return strings.HasSuffix(name, ext) }) {
			files = append(files, traceFile{name, st.Size(), st.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b traceFile) int { return cmp.Or(a.time.Compare(b.time), cmp.Compare(a.Name, b.Name)) })
	return files
}
