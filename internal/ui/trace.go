package ui

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"trireme/internal/tracefile"
	"trireme/trace"
)

// maxTrace is the largest trace file that is read, in bytes.
const maxTrace = 1 << 30

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

type traceAnswer struct {
	Schema string       `json:"schema"`
	File   string       `json:"file"`
	Length int64        `json:"length"` // nanoseconds; times are from the first span
	Steps  string       `json:"steps"`
	Ranks  []traceRank  `json:"ranks"`
	Kinds  []string     `json:"kinds"`
	Names  []string     `json:"names"`
	Tracks []traceTrack `json:"tracks"`
	Notes  []string     `json:"notes"`
}

type traceRank struct {
	Rank int    `json:"rank"`
	Name string `json:"name"`
}

// traceTrack has spans that neither overlap nor nest. A span is [start, end, kind, name, step, bytes, axis, ready, count]:
// kind indexes Kinds, name and axis index Names (axis -1: none), ready is when the last rank had reached a
// collective (0: unknown), and count is the number of spans too short to draw that this one replaces (0: it is a span).
type traceTrack struct {
	Rank   int        `json:"rank"`
	Stream string     `json:"stream"`
	Depth  int        `json:"depth"`
	Spans  [][9]int64 `json:"spans"`
}

// trace returns the spans of a file within a range, those shorter than a point merged.
func (s *Server) trace(r *http.Request) (any, error) {
	e, err := s.store.one(r)
	if err != nil {
		return nil, err
	}
	name := r.FormValue("file")
	files := traceFiles(e.path)
	i := slices.IndexFunc(files, func(f traceFile) bool { return f.Name == name })
	if i < 0 {
		return nil, notFound("the run has no trace of this name")
	}
	if files[i].Bytes > maxTrace {
		return nil, badRequest("%s has %d bytes, more than the page reads. try: Perfetto's page", name, files[i].Bytes)
	}
	l, err := s.store.layout(filepath.Join(e.path, "trace", name), files[i])
	if err != nil {
		return nil, &statusError{http.StatusUnprocessableEntity, err}
	}
	from, err := number(r, "from", 0)
	if err != nil {
		return nil, err
	}
	to, err := number(r, "to", float64(l.length))
	if err != nil {
		return nil, err
	}
	points, err := count(r, "points", 1000, 8000)
	if err != nil {
		return nil, err
	}
	return l.answer(name, int64(max(0, from)), int64(min(float64(l.length), to)), points), nil
}

// layout is a trace with its spans in rows.
type layout struct {
	path   string
	time   time.Time
	bytes  int64
	t      *tracefile.Trace
	start  int64
	length int64
	rows   []layoutRow
}

type layoutRow struct {
	rank   *tracefile.Rank
	stream trace.Stream
	depth  int
	spans  []int // indexes of rank.Spans
}

// layouts keeps the last few traces.
type layouts struct {
	mu   sync.Mutex
	kept []*layout
}

// layout reads a trace file, or returns it from the last calls.
func (s *store) layout(path string, f traceFile) (*layout, error) {
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock() // one at a time: traces are large
	for _, l := range s.traces.kept {
		if l.path == path && l.time.Equal(f.time) && l.bytes == f.Bytes {
			return l, nil
		}
	}
	if st, err := os.Lstat(path); err != nil || st.Mode()&fs.ModeType != 0 {
		return nil, fmt.Errorf("%s is not a file", filepath.Base(path))
	}
	t, err := tracefile.Read(path)
	if err != nil {
		return nil, err
	}
	l := newLayout(t)
	l.path, l.time, l.bytes = path, f.time, f.Bytes
	s.traces.kept = append(s.traces.kept, l)
	if len(s.traces.kept) > 3 {
		s.traces.kept = s.traces.kept[1:]
	}
	return l, nil
}

// newLayout puts each span into the first row of its rank and stream that is free from its start on, below the
// spans that enclose it.
func newLayout(t *tracefile.Trace) *layout {
	l := &layout{t: t}
	end := int64(0)
	first := true
	for i := range t.Ranks {
		k := &t.Ranks[i]
		byStream := map[trace.Stream][]*layoutRow{}
		for j, sp := range k.Spans {
			if first || sp.Start < l.start {
				l.start = sp.Start
			}
			first = false
			end = max(end, sp.End)
			rows := byStream[sp.Stream]
			at := slices.IndexFunc(rows, func(r *layoutRow) bool { return k.Spans[r.spans[len(r.spans)-1]].End <= sp.Start })
			if at < 0 {
				at = len(rows)
				rows = append(rows, &layoutRow{rank: k, stream: sp.Stream, depth: at})
				byStream[sp.Stream] = rows
			}
			rows[at].spans = append(rows[at].spans, j)
		}
		for stream := trace.Stream(0); len(byStream) > 0 && stream.String() != "unknown"; stream++ {
			for _, r := range byStream[stream] {
				l.rows = append(l.rows, *r)
			}
			delete(byStream, stream)
		}
	}
	l.length = max(1, end-l.start)
	return l
}

func (l *layout) answer(file string, from, to int64, points int) traceAnswer {
	a := traceAnswer{Schema: "trireme.ui.trace/1", File: file, Length: l.length, Ranks: []traceRank{}, Names: []string{}, Tracks: []traceTrack{}, Notes: append([]string{}, l.t.Notes...)}
	if first, last, ok := l.t.Steps(); ok {
		a.Steps = fmt.Sprintf("steps %d to %d", first, last)
	}
	for i := range l.t.Ranks {
		a.Ranks = append(a.Ranks, traceRank{l.t.Ranks[i].Rank, l.t.Ranks[i].Name()})
	}
	for k := trace.Kind(0); k.String() != "unknown"; k++ {
		a.Kinds = append(a.Kinds, k.String())
	}
	ids := map[string]int64{}
	id := func(name string) int64 {
		n, ok := ids[name]
		if !ok {
			n = int64(len(a.Names))
			ids[name] = n
			a.Names = append(a.Names, name)
		}
		return n
	}
	point := max(1, (to-from)/int64(points))
	for _, row := range l.rows {
		tr := traceTrack{Rank: row.rank.Rank, Stream: row.stream.String(), Depth: row.depth, Spans: [][9]int64{}}
		longest := int64(0) // of the merged spans
		begin, _ := slices.BinarySearchFunc(row.spans, from, func(i int, at int64) int { return cmp.Compare(row.rank.Spans[i].End-l.start, at) })
		for _, i := range row.spans[begin:] {
			sp := row.rank.Spans[i]
			start, end := sp.Start-l.start, sp.End-l.start
			if start > to {
				break
			}
			ready := int64(0)
			if sp.Ready != 0 {
				ready = sp.Ready - l.start
			}
			if end-start >= point {
				axis := int64(-1)
				if sp.Axis != "" {
					axis = id(sp.Axis)
				}
				tr.Spans = append(tr.Spans, [9]int64{start, end, int64(sp.Kind), id(tracefile.Name(sp)), sp.Step, sp.Bytes, axis, ready, 0})
				continue
			}
			if n := len(tr.Spans) - 1; n >= 0 && tr.Spans[n][8] > 0 && start-tr.Spans[n][1] < point && end-tr.Spans[n][0] < 8*point {
				last := &tr.Spans[n]
				last[1] = max(last[1], end)
				last[8]++
				if end-start > longest {
					longest, last[2] = end-start, int64(sp.Kind)
				}
				continue
			}
			longest = end - start
			tr.Spans = append(tr.Spans, [9]int64{start, end, int64(sp.Kind), id(tracefile.Name(sp)), sp.Step, 0, -1, 0, 1})
		}
		a.Tracks = append(a.Tracks, tr)
	}
	return a
}
