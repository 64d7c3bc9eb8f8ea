package browsertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"trireme/internal/ui/uitest"
	"trireme/monitor"
)

func plain(name string, seed uint64, steps int) uitest.Run {
	zero := 0
	return uitest.Run{Name: name, Seed: seed, Steps: steps, Max: steps, Ranks: 4, LR: 1e-3 * float64(seed), Exit: &zero, Config: fmt.Sprintf("training: {learning_rate: %de-3, max_steps: %d}\n", seed, steps)}
}

// write writes runs below a directory and returns their ids.
func write(t testing.TB, root string, runs ...uitest.Run) (ids []string) {
	t.Helper()
	for _, r := range runs {
		dir := filepath.Join(root, r.Name)
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, dir)
	}
	return ids
}

// box is the position of the plot within a chart's canvas.
type box struct{ X, Y, W, H float64 }

func (b *browser) chart(metric string) box {
	b.Helper()
	return eval[box](b, fmt.Sprintf(`(() => {
		const p = document.querySelector('[data-metric=%s] .plot').plot, r = p.canvas.getBoundingClientRect(), a = p.inner();
		return {X: r.left + a.x, Y: r.top + a.y, W: a.w, H: a.h};
	})()`, quote(metric)))
}

func (b *browser) mouse(kind input.DispatchMouseEventType, x, y float64) {
	b.Helper()
	b.do(chromedp.MouseEvent(kind, x, y, chromedp.ButtonLeft))
}

func TestCharts(t *testing.T) {
	root := t.TempDir()
	ids := write(t, root, plain("one", 1, 400), plain("two", 2, 400), plain("three", 3, 400))
	b := newBrowser(t, 1280, 800)
	b.open(serve(t, root), nil)
	if got := eval[int](b, "document.querySelectorAll('.run').length"); got != 3 {
		t.Errorf("the list has %d runs", got)
	}
	b.until(drawn("loss", blue))

	// Overlay: a second run has another color.
	eval[any](b, "document.querySelectorAll('.swatch')[1].click()")
	b.until(drawn("loss", orange))
	b.until(drawn("lr", orange))

	// Dragging zooms all charts, and finer buckets arrive.
	at := b.chart("loss")
	b.mouse(input.DispatchMouseEventTypeMousePressed, at.X+at.W*0.25, at.Y+50)
	b.mouse(input.DispatchMouseEventTypeMouseMoved, at.X+at.W*0.4, at.Y+50)
	b.mouse(input.DispatchMouseEventTypeMouseMoved, at.X+at.W*0.5, at.Y+50)
	b.mouse(input.DispatchMouseEventTypeMouseReleased, at.X+at.W*0.5, at.Y+50)
	zoomed := eval[[]float64](b, "trireme.view.range")
	if len(zoomed) != 2 || zoomed[0] < 90 || zoomed[0] > 112 || zoomed[1] < 190 || zoomed[1] > 212 {
		t.Errorf("zoomed to %v, want about 101 to 200", zoomed)
	}
	b.until("trireme.view.shown[1] < 215")
	b.until(`document.querySelector('[data-metric=loss] .plot').plot.series.every(s => !s.dense && s.x.length > 100 && s.x.length < 260)`)
	if !strings.Contains(eval[string](b, "location.hash"), "range=") {
		t.Error("the address has no range")
	}

	// The pointer shows the values of all runs, in the box and in the heads of the other charts.
	b.mouse(input.DispatchMouseEventTypeMouseMoved, at.X+at.W*0.5, at.Y+60)
	b.until("!document.querySelector('.tip').hidden && document.querySelectorAll('.tip tr').length === 2")
	b.until("document.querySelectorAll('[data-metric=lr] .values b').length === 2")

	// A click inspects a step: the drawer has the values of each run there.
	b.mouse(input.DispatchMouseEventTypeMousePressed, at.X+at.W*0.5, at.Y+60)
	b.mouse(input.DispatchMouseEventTypeMouseReleased, at.X+at.W*0.5, at.Y+60)
	b.until("!document.getElementById('drawer').hidden && document.querySelectorAll('#drawer thead th').length === 3")
	if text := eval[string](b, "document.getElementById('drawer').innerText"); !strings.Contains(text, "grad_norm") || !strings.Contains(text, "step 15") {
		t.Errorf("the drawer has %.200q", text)
	}

	// Smoothing, logarithm, axes.
	b.do(chromedp.KeyEvent("s"), chromedp.KeyEvent("s"), chromedp.KeyEvent("0"))
	b.until("trireme.state.smooth === 0.2 && trireme.view.range === null")
	eval[any](b, "document.querySelector('[data-metric=loss] .mini').click()")
	b.until("trireme.state.log.has('loss')")
	b.until(drawn("loss", orange))
	for axis, end := range map[string]string{"tokens": "400 * 4096", "time": "399 * 0.13", "wall": "0"} {
		eval[any](b, "document.querySelector('[data-axis="+axis+"]').click()")
		b.until(drawn("loss", orange))
		b.until(fmt.Sprintf("%s === 0 || Math.abs(trireme.view.full[1] - %s) < 1", end, end))
	}

	// Every view shows something.
	b.tab("compare")
	b.until("document.querySelectorAll('.compare.config tbody tr').length === 1")
	b.tab("time")
	b.until("document.querySelectorAll('#main canvas').length >= 4")
	b.until(drawn("Time of a step", "[0x7a, 0x62, 0xe0]") + "|| true")
	b.tab("run")
	b.until("document.querySelectorAll('.figure').length > 5")
	b.tab("trace")
	b.until("document.getElementById('main').innerText.includes('no trace')")
	b.tab("charts")

	// A link shows the same runs.
	b.open(eval[string](b, "location.origin"), url.Values{"run": {ids[2]}, "tab": {"charts"}})
	b.do(chromedp.Reload())
	b.until("window.trireme && trireme.state.selected.length === 1")
	b.until(drawn("loss", blue))
	b.quiet()
}

func TestKeyboard(t *testing.T) {
	root := t.TempDir()
	write(t, root, plain("alpha", 1, 50), plain("beta", 2, 50))
	b := newBrowser(t, 1280, 800)
	b.open(serve(t, root), nil)
	b.until(drawn("loss", blue))
	key := func(keys string) { b.do(chromedp.KeyEvent(keys)) }
	focus := func() string {
		return eval[string](b, "document.activeElement.tagName + ' ' + (document.activeElement.getAttribute('aria-label') || document.activeElement.innerText)")
	}

	key("/")
	if f := focus(); f != "INPUT Search runs" {
		t.Errorf("/ focuses %s", f)
	}
	key("alp")
	b.until("document.querySelectorAll('.run').length === 1")
	key(kb.Enter)
	if f := focus(); f != "DIV Runs" {
		t.Errorf("Enter focuses %s", f)
	}
	key(kb.Enter)
	b.until("trireme.state.selected.length === 1 && trireme.state.selected[0].endsWith('alpha')")
	key(kb.Escape)
	b.until("document.querySelectorAll('.run').length === 2")
	key(kb.Home)
	key(" ")
	b.until("trireme.state.selected.length === 2")
	key("?")
	b.until("document.querySelector('dialog').open")
	key(kb.Escape)
	b.until("!document.querySelector('dialog').open")

	// Tab reaches a chart, whose arrows inspect steps.
	eval[any](b, "document.querySelector('.filter').focus()")
	for range 12 {
		if strings.HasPrefix(focus(), "CANVAS loss") {
			break
		}
		key(kb.Tab)
	}
	if f := focus(); !strings.HasPrefix(f, "CANVAS loss: ") {
		t.Fatalf("Tab does not reach the chart of loss: %s", f)
	}
	key(kb.ArrowRight)
	key(kb.ArrowRight)
	b.until("trireme.view.pin === 2 && !document.getElementById('drawer').hidden")
	b.until("document.getElementById('live').textContent.includes('step 2')")
	key("+")
	b.until("trireme.view.range")
	key(kb.Escape)
	key(kb.Escape)
	b.until("trireme.view.pin === null && trireme.view.range === null")
	for i, tab := range []string{"charts", "run", "time", "trace", "compare"} {
		key(fmt.Sprint(i + 1))
		b.until("document.getElementById('tab-" + tab + "').getAttribute('aria-selected') === 'true'")
	}
	b.quiet()
}

// TestNarrow checks every view on a phone, light and dark.
func TestNarrow(t *testing.T) {
	root := t.TempDir()
	ids := write(t, root, plain("one", 1, 100), plain("two", 2, 100))
	if err := uitest.WriteTrace(ids[0], 2, 2, 4, 1); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, 390, 844)
	b.do(chromedp.EmulateViewport(390, 844))
	b.open(serve(t, root), url.Values{"run": ids, "focus": {ids[0]}})
	b.until(drawn("loss", blue))
	background := func() string { return eval[string](b, "getComputedStyle(document.body).backgroundColor") }
	light := background()
	b.scheme("dark")
	b.until("getComputedStyle(document.body).backgroundColor !== " + quote(light))
	b.until(drawn("loss", blue))
	for _, tab := range []string{"charts", "run", "time", "trace", "compare"} {
		b.tab(tab)
		b.until("document.getElementById('main').childElementCount > 0")
		time.Sleep(150 * time.Millisecond)
		wide := eval[string](b, `[...document.querySelectorAll('body, #bar, #main, #main > *, .card')].filter(e => e.getBoundingClientRect().right > 391 || e.id === 'main' && e.scrollWidth > 391).map(e => e.tagName + '.' + e.className).join(' ')`)
		if wide != "" {
			t.Errorf("%s is wider than 390 pixels: %s", tab, wide)
		}
	}
	eval[any](b, "document.querySelector('.menu').click()")
	b.until("document.getElementById('side').getBoundingClientRect().left === 0")
	b.quiet()
}

// TestInjection checks that no text of a run is a script, a tag or an attribute of the page.
func TestInjection(t *testing.T) {
	root := t.TempDir()
	evil := "\"'><img src=x onerror=window.hacked=1><script>window.hacked=1</script>\u202e\u0007\x1b[31m\u2028{{7*7}}"
	name := strings.NewReplacer("/", "", "\x00", "").Replace(evil)
	config, err := json.Marshal(map[string]any{"name": evil, evil: map[string]any{"<b>x</b>": evil}})
	if err != nil {
		t.Fatal(err)
	}
	r := plain(name, 1, 30)
	r.Config = string(config)
	for _, kind := range []monitor.EventKind{monitor.EventNote, monitor.EventAlert, monitor.EventKind(evil)} {
		r.Events = append(r.Events, monitor.Event{Time: time.Now(), Step: 3, Kind: kind, Text: evil, Samples: []string{evil}})
	}
	id := write(t, root, r)[0]
	metrics, err := os.OpenFile(filepath.Join(id, "metrics.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for step := 31; step < 40; step++ {
		b, err := json.Marshal(map[string]any{"step": step, "loss": 2, "means": map[string]any{evil: step}, "memory": map[string]any{evil: 1 << 20}, "time": time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := metrics.Write(append(b, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(metrics.Close(), uitest.WriteTrace(id, 2, 1, 2, 0)); err != nil {
		t.Fatal(err)
	}
	trace := fmt.Sprintf(`{"traceEvents":[{"name":%s,"ph":"X","ts":0,"dur":1000,"pid":0,"tid":1}]}`, quote(evil))
	if err := os.WriteFile(filepath.Join(id, "trace", name[:40]+".json"), []byte(trace), 0o644); err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, 1280, 800)
	address := serve(t, root)
	b.open(address, url.Values{"filter": {"means"}, "run": {id}, "log": {evil}})
	b.until("document.querySelectorAll('.card canvas').length > 0")
	at := eval[box](b, `(() => { const r = document.querySelector('.card canvas').getBoundingClientRect(); return {X: r.left, Y: r.top, W: r.width, H: r.height}; })()`)
	b.mouse(input.DispatchMouseEventTypeMouseMoved, at.X+at.W*0.95, at.Y+60)
	b.mouse(input.DispatchMouseEventTypeMousePressed, at.X+at.W*0.9, at.Y+60)
	b.mouse(input.DispatchMouseEventTypeMouseReleased, at.X+at.W*0.9, at.Y+60)
	b.until("!document.getElementById('drawer').hidden")
	seen := 0
	for _, tab := range []string{"charts", "run", "time", "compare", "trace"} {
		b.tab(tab)
		time.Sleep(300 * time.Millisecond)
		if strings.Contains(eval[string](b, "document.body.textContent"), "<script>window.hacked") {
			seen++
		}
		if bad := eval[string](b, `[...document.querySelectorAll('script, img, b, iframe, [onerror], [onload]')].filter(e => !(e.tagName === 'SCRIPT' && e.getAttribute('src') === 'main.js') && !(e.tagName === 'IMG' && e.getAttribute('src') === 'icon.svg') && (e.tagName !== 'B' || e.textContent === 'x')).map(e => e.outerHTML).join(' ')`); bad != "" {
			t.Errorf("%s has elements of the run: %s", tab, bad)
		}
	}
	if seen < 4 {
		t.Errorf("the text of the run is shown in %d views only: this test checks nothing", seen)
	}
	if eval[bool](b, "'hacked' in window") {
		t.Error("a script of the run was executed")
	}

	// The policy stops what the page itself would never do.
	blocked := eval[bool](b, `(() => { try { document.body.innerHTML = '<i>'; return false; } catch { return true; } })()`)
	if !blocked || eval[bool](b, "fetch('https://example.com/').then(() => true, () => false)") {
		t.Error("the policy allows strings as HTML, or requests to other servers")
	}
}

// TestLive checks that a record is on the page within a second.
func TestLive(t *testing.T) {
	root := t.TempDir()
	r := plain("live", 1, 50)
	r.Exit, r.Max = nil, 200
	id := write(t, root, r)[0]
	b := newBrowser(t, 1280, 800)
	b.open(serve(t, root), nil)
	b.until(drawn("loss", blue))
	b.until("trireme.state.connected")
	f, err := os.OpenFile(filepath.Join(id, "metrics.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for step := 51; step <= 53; step++ {
		if _, err := f.Write(append(r.Record(int64(step), time.Now()).AppendJSON(nil), '\n')); err != nil {
			t.Fatal(err)
		}
		took := b.until(fmt.Sprintf("document.querySelector('[data-metric=loss] .plot').plot.series[0].x.at(-1) === %d && document.querySelector('.line2').innerText.includes('%d / 200')", step, step))
		if took > time.Second {
			t.Errorf("step %d was on the page after %v", step, took)
		}
		t.Logf("step %d was on the page after %v", step, took)
	}
	// A new run appears in the list.
	write(t, root, plain("another", 2, 5))
	b.until("document.querySelectorAll('.run').length === 2")
	b.quiet()
}
