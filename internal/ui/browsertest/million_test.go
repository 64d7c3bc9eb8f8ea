package browsertest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"trireme/internal/runlog"
	"trireme/internal/ui/uitest"
)

// TestMillion measures 8 runs of a million steps: the time to the first charts, and frames while zooming.
func TestMillion(t *testing.T) {
	if os.Getenv("UITEST_MILLION") == "" {
		t.Skip("it writes 8 runs of a million steps: UITEST_MILLION=1 runs it")
	}
	root := os.Getenv("UITEST_MILLION_DIR") // keeps the runs
	if root == "" {
		root = t.TempDir()
	}
	var ids []string
	for k := range 8 {
		r := uitest.Run{Name: fmt.Sprintf("run-%d", k), Seed: uint64(k + 1), Steps: 1_000_000, Max: 1_000_000, Ranks: 4, LR: 1e-3 * float64(k+1), Small: true}
		dir := filepath.Join(root, r.Name)
		ids = append(ids, dir)
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		run, err := runlog.Open(dir) // makes the index
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: index in %v", r.Name, time.Since(start))
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b := newBrowser(t, 1440, 900)
	address := serve(t, root)
	b.open(address, url.Values{"run": ids[:1]}) // the program and the browser are warm
	b.until(drawn("loss", blue))
	address = serve(t, root) // nothing is open here
	start := time.Now()
	b.open(address, url.Values{"run": ids, "filter": {""}})
	b.until(`(() => { const p = [...document.querySelectorAll('.plot')].map(e => e.plot).filter(p => p.visible); return p.length >= 4 && p.every(p => p.series.length === 8 && !p.dirty); })()`)
	opened := time.Since(start)
	charts := eval[int](b, "[...document.querySelectorAll('.plot')].filter(e => e.plot.visible).length")
	t.Logf("8 runs of 1,000,000 steps: %d charts drawn %v after navigation", charts, opened)
	if opened > time.Second {
		t.Errorf("it took %v, more than a second", opened)
	}
	type figures struct{ Frames, Seconds, Worst, Drawing float64 }
	f := eval[figures](b, `(async () => {
		const v = trireme.view, times = [];
		const before = trireme.frames.drawing, count = trireme.frames.count;
		let last = performance.now(), stop = false;
		const tick = (now) => { times.push(now - last); last = now; if (!stop) requestAnimationFrame(tick); };
		requestAnimationFrame((now) => { last = now; requestAnimationFrame(tick); });
		for (let i = 0; i < 24; i++) {
			v.zoom(i % 12 < 6 ? 0.6 : 1 / 0.6, 300000 + 1000 * i);
			await new Promise((r) => setTimeout(r, 160));
		}
		stop = true;
		const seconds = times.reduce((a, b) => a + b, 0) / 1000;
		return { Frames: times.length, Seconds: seconds, Worst: Math.max(...times), Drawing: (trireme.frames.drawing - before) / (trireme.frames.count - count) };
	})()`)
	t.Logf("zooming: %.0f frames in %.2f s: %.1f frames per second, the longest %.0f ms; drawing takes %.1f ms per frame", f.Frames, f.Seconds, f.Frames/f.Seconds, f.Worst, f.Drawing)
	b.quiet()
}
