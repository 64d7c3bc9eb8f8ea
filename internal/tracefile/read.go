package tracefile

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Read reads the files of one job as one trace: files of any format, and directories of them, in which a file of
// each rank may be.
func Read(paths ...string) (*Trace, error) {
	var files []string
	for _, p := range paths {
		found, err := filesOf(p)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	all := &Trace{}
	unnamed := 0
	for _, f := range files {
		t, err := readFile(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all.Wall = cmp.Or(all.Wall, t.Wall)
		for _, n := range t.Notes {
			all.Notes = append(all.Notes, fmt.Sprintf("%s: %s", f, n))
		}
		for _, r := range t.Ranks {
			if r.Rank < 0 {
				r.Rank = unnamed
				unnamed++
			}
			all.Add(r)
		}
	}
	all.alignForeign()
	return all, nil
}

// perfettoSuffixes are the names of files in Perfetto's format.
var perfettoSuffixes = []string{".perfetto-trace", ".pftrace"}

func isPerfetto(name string) bool {
	name = strings.TrimSuffix(name, ".gz")
	return slices.ContainsFunc(perfettoSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// filesOf returns a file, or the traces in a directory. A window that was written in both formats is read once.
func filesOf(path string) (files []string, err error) {
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	stem := func(name string) string {
		name = strings.TrimSuffix(name, ".gz")
		return strings.TrimSuffix(name, filepath.Ext(name))
	}
	binary := map[string]bool{}
	for _, e := range entries {
		if isPerfetto(e.Name()) {
			binary[stem(e.Name())] = true
		}
	}
	for _, e := range entries {
		name := e.Name()
		json := strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".json")
		if !e.IsDir() && (isPerfetto(name) || json && !binary[stem(name)]) {
			files = append(files, filepath.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("the directory has no traces (*.perfetto-trace, *.pftrace, *.json, *.json.gz)")}
	}
	return files, nil
}

func readFile(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err) // without the path
	}
	defer f.Close()
	return read(f, filepath.Base(path))
}

// read reads a file of any format, also compressed.
func read(r io.Reader, name string) (*Trace, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	head, _ := in.Peek(2)
	if string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(z, 1<<20)
	}
	head, err := in.Peek(64)
	if len(head) == 0 {
		if err == io.EOF {
			err = errors.New("the file is empty")
		}
		return nil, err
	}
	text := strings.TrimLeft(string(head), " \t\r\n")
	if !isPerfetto(name) && text != "" && (text[0] == '{' || text[0] == '[') {
		return ReadChrome(in, name)
	}
	if stem := strings.TrimSuffix(name, ".gz"); filepath.Ext(stem) == ".json" {
		return nil, errors.New("the file is no JSON: it starts with neither { nor [")
	}
	return ReadPerfetto(in)
}

// alignForeign aligns the clocks of traces that other programs recorded, one by rank: where two ranks' collectives
// contradict each other, since no rank leaves one before all have reached it, the ends of collectives are taken as
// simultaneous.
func (t *Trace) alignForeign() {
	if len(t.Ranks) < 2 || !t.Ranks[0].Foreign {
		return
	}
	offsets := make([][]int64, len(t.Ranks))
	wrong := make([]bool, len(t.Ranks))
	for _, c := range t.Collectives() {
		if c.Members[0].Rank != 0 {
			continue
		}
		a := t.Ranks[0].Spans[c.Members[0].Span]
		for _, m := range c.Members[1:] {
			b := t.Ranks[m.Rank].Spans[m.Span]
			offsets[m.Rank] = append(offsets[m.Rank], a.End-b.End)
			wrong[m.Rank] = wrong[m.Rank] || b.End < a.Start || a.End < b.Start
		}
	}
	for r := range t.Ranks {
		if !wrong[r] {
			continue
		}
		slices.Sort(offsets[r])
		middle := offsets[r][len(offsets[r])/2]
		k := &t.Ranks[r]
		k.Shift(middle)
		for _, o := range offsets[r] {
			k.ClockUncertainty = max(k.ClockUncertainty, max(o-middle, middle-o))
		}
		t.Notes = append(t.Notes, fmt.Sprintf("the clock of %s differs by %.3f ms from that of %s: aligned by the ends of %d collectives", k.Name(), float64(-middle)/1e6, t.Ranks[0].Name(), len(offsets[r])))
	}
}
