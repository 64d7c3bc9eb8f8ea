package hub

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// lineEvery is the interval of progress lines without a terminal.
const lineEvery = 5 * time.Second

// progress reports downloads. It is safe for concurrent use.
type progress struct {
	w        io.Writer
	terminal bool

	mu      sync.Mutex
	bars    *mpb.Progress // nil: idle, or no terminal
	bar     *mpb.Bar
	stop    chan struct{} // nil: idle, or a terminal
	ticking sync.WaitGroup

	what  string
	total int64 // bytes
	files int
	began time.Time

	// Atomic: the bar reads them without mu.
	done atomic.Int64 // bytes
	kept atomic.Int64 // of done, already on disk
	left atomic.Int64 // files
}

func newProgress(w io.Writer, terminal bool) *progress {
	if w == nil {
		w = io.Discard
	}
	return &progress{w: w, terminal: terminal}
}

// note prints a line, above the bar if there is one.
func (p *progress) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(fmt.Sprintf(format, args...))
}

func (p *progress) print(line string) {
	w := p.w
	if p.bars != nil {
		w = p.bars
	}
	line = strings.Map(func(r rune) rune { // no control characters of a server
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, line)
	fmt.Fprintln(w, line) // a closed terminal does not stop a download
}

// start starts reporting n files of total bytes.
func (p *progress) start(ctx context.Context, what string, files int, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.files, p.total, p.began = what, files, total, time.Now()
	p.done.Store(0)
	p.kept.Store(0)
	p.left.Store(int64(files))
	p.print(fmt.Sprintf("%s: downloading %s, %s", what, count(files, "file"), size(total)))
	if p.terminal {
		p.bars = mpb.NewWithContext(ctx, mpb.WithOutput(p.w), mpb.WithWidth(30), mpb.WithAutoRefresh())
		p.bar = p.bars.AddBar(total, mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.state() })))
		return
	}
	p.stop = make(chan struct{})
	p.ticking.Go(func() { p.tick(p.stop) })
}

func (p *progress) tick(stop chan struct{}) {
	t := time.NewTicker(lineEvery)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			p.note("%s: %s", p.what, p.state())
		}
	}
}

// state formats the progress. The speed excludes bytes that were already on disk.
func (p *progress) state() string {
	done, now := p.done.Load(), time.Since(p.began).Seconds()
	speed := float64(done-p.kept.Load()) / max(now, 1e-3)
	s := fmt.Sprintf("%s of %s (%d%%), %s/s", size(done), size(p.total), 100*done/max(1, p.total), size(int64(speed)))
	if p.files > 1 {
		s += fmt.Sprintf(", %d of %d files", int64(p.files)-p.left.Load(), p.files)
	}
	if rest := p.total - done; speed > 0 && rest > 0 {
		s += ", " + (time.Duration(float64(rest)/speed) * time.Second).String() + " left"
	}
	return s
}

// add counts received bytes, or discarded ones if n is negative. kept were already on disk.
func (p *progress) add(n int64, kept bool) {
	if kept {
		p.kept.Add(n)
	}
	done := p.done.Add(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.SetCurrent(done)
	}
}

func (p *progress) fileDone() { p.left.Add(-1) }

func (p *progress) finish(ok bool) {
	p.mu.Lock()
	bars, bar, stop := p.bars, p.bar, p.stop
	p.mu.Unlock()
	switch {
	case bars != nil:
		if ok {
			bar.SetTotal(-1, true)
		} else {
			bar.Abort(false)
		}
		bars.Wait()
	case stop != nil:
		close(stop)
		p.ticking.Wait()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bars, p.bar, p.stop = nil, nil, nil
	if ok {
		p.print(fmt.Sprintf("%s: %s in %s", p.what, size(p.done.Load()-p.kept.Load()), time.Since(p.began).Round(10*time.Millisecond)))
	}
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func size(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}
