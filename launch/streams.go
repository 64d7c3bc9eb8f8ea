package launch

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trireme/rendezvous"
)

// Output configures where workers' output goes, besides Config.LogDir. The zero value shows that of local rank
// 0's worker. Files have the layout of torchrun's log directory.
type Output struct {
	All   bool  // show the output of all workers
	Ranks []int // with All, only of these local ranks; nil: all

	// Dir is the directory of attempt_N/LOCAL_RANK/stdout.log, stderr.log and error.json, to which
	// TORCHELASTIC_ERROR_FILE points. "": no files.
	Dir       string
	Redirects Streams // written to files and not shown
	Tee       Streams // written to files and shown, with Prefix before each line

	// Prefix may contain ${role_name}, ${rank} and ${local_rank}. "": [${role_name}${local_rank}]:
	Prefix string
}

// Streams selects standard output and standard error of workers by local rank. The zero value selects none.
type Streams struct {
	all  int
	each map[int]int // by local rank; nil: all
}

// AllStreams selects both streams of all workers.
func AllStreams() Streams { return Streams{all: 3} }

// ParseStreams parses torchrun's form: 0 for none, 1 for stdout, 2 for stderr, 3 for both, or such a number
// for each local rank: 0:3,1:1.
func ParseStreams(s string) (Streams, error) {
	bad := fmt.Errorf("%q is not 0 (none), 1 (stdout), 2 (stderr), 3 (both), or RANK:NUMBER for each local rank, such as 0:3,1:1", s)
	number := func(v string) (int, bool) {
		n, err := strconv.Atoi(v)
		return n, err == nil && n >= 0 && n <= 3 && len(v) == 1
	}
	if n, ok := number(s); ok {
		return Streams{all: n}, nil
	}
	each := map[int]int{}
	for part := range strings.SplitSeq(s, ",") {
		rank, v, _ := strings.Cut(part, ":")
		local, err := strconv.Atoi(rank)
		n, ok := number(v)
		if _, twice := each[local]; err != nil || local < 0 || !ok || twice {
			return Streams{}, bad
		}
		each[local] = n
	}
	return Streams{each: each}, nil
}

// Any reports whether s selects a stream of a worker.
func (s Streams) Any() bool {
	for _, n := range s.each {
		if n != 0 {
			return true
		}
	}
	return s.all != 0
}

// has reports whether s selects stream 0 (stdout) or 1 (stderr) of a worker.
func (s Streams) has(local, stream int) bool {
	n := s.all
	if s.each != nil {
		n = s.each[local]
	}
	return n>>stream&1 != 0
}

// streamFiles are the names of the streams' files.
var streamFiles = [2]string{"stdout.log", "stderr.log"}

// workerDir returns the directory of a worker's files, or "".
func (o Output) workerDir(e rendezvous.Env) string {
	if o.Dir == "" {
		return ""
	}
	return filepath.Join(o.Dir, "attempt_"+strconv.Itoa(e.RestartCount), strconv.Itoa(e.LocalRank/max(1, e.Ranks)))
}

// files opens the files of a worker's streams; nil where there is none.
func (o Output) files(e rendezvous.Env) (files [2]*os.File, err error) {
	dir := o.workerDir(e)
	if dir == "" {
		return files, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return files, fmt.Errorf("launch: %w", err)
	}
	local := e.LocalRank / max(1, e.Ranks)
	for i, name := range streamFiles {
		if !o.Redirects.has(local, i) && !o.Tee.has(local, i) {
			continue
		}
		if files[i], err = os.Create(filepath.Join(dir, name)); err != nil {
			return files, fmt.Errorf("launch: %w", err)
		}
	}
	return files, nil
}

// shows returns the writer that shows a stream of a worker, over w; nil if it is not shown.
func (c Config) shows(e rendezvous.Env, stream int, w io.Writer) io.Writer {
	o, local := c.Output, e.LocalRank/max(1, e.Ranks)
	switch {
	case local != 0 && !o.All, o.All && o.Ranks != nil && !slices.Contains(o.Ranks, local):
		return nil
	case o.Tee.has(local, stream):
		return &prefixed{w: w, prefix: o.prefix(c.role(), e.Rank, local)}
	case o.Redirects.has(local, stream):
		return nil
	case o.All && c.Nproc > 1:
		return &prefixed{w: w} // whole lines
	case stream == 1 && c.LogDir != "":
		return &untilCrash{w: w}
	}
	return w
}

func (o Output) prefix(role string, rank, local int) string {
	p := o.Prefix
	if p == "" {
		p = "[${role_name}${local_rank}]:"
	}
	var pairs []string
	for name, v := range map[string]string{"role_name": role, "rank": strconv.Itoa(rank), "local_rank": strconv.Itoa(local)} {
		pairs = append(pairs, "${"+name+"}", v)
	}
	return strings.NewReplacer(pairs...).Replace(p)
}

// logOf returns the file that has a worker's last output, or "".
func (c Config) logOf(w *worker) string {
	if c.LogDir != "" {
		return c.logPath(w.rank)
	}
	for _, f := range []*os.File{w.files[1], w.files[0]} {
		if f != nil {
			return f.Name()
		}
	}
	return ""
}

// shownAlone reports whether the terminal has the output of w and of no other worker.
func (c Config) shownAlone(w *worker) bool {
	return w.local == 0 && (!c.Output.All || c.Nproc == 1) && !c.Output.Redirects.Any()
}
