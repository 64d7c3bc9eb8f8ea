package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"trireme/internal/clustertest"
	"trireme/internal/ui"
)

// chromium returns a Chromium's path, or skips the test.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	clustertest.Skip(t, "chromium is not installed (Debian: chromium)")
	return ""
}

// serve serves the page for directories.
func serve(t testing.TB, dirs ...string) string {
	t.Helper()
	s, err := ui.New(ui.Config{Dirs: dirs})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		h.CloseClientConnections()
		h.Close()
	})
	return h.URL
}

// browser is a tab of a headless Chromium.
type browser struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	messages []string // of the console, from warnings up, and exceptions
}

func newBrowser(t testing.TB, width, height int) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.WindowSize(width, height), chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{TB: t, ctx: ctx}
	b.scheme("light")
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == "log" || m.Type == "debug" || m.Type == "info" {
				continue
			}
			b.mu.Lock()
			b.messages = append(b.messages, m.String()+" "+m.URL)
			b.mu.Unlock()
		}
	}()
	return b
}

// scheme is light or dark.
func (b *browser) scheme(name string) {
	b.Helper()
	b.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return chromedp.Void{}, err
	})
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatalf("%v\nconsole: %s", err, b.console())
	}
}

// open opens the page with a fragment of its address.
func (b *browser) open(address string, fragment url.Values) {
	b.Helper()
	b.do(chromedp.Navigate(address + "/#" + fragment.Encode()))
	b.until("window.trireme && window.trireme.state.runs.size")
}

// tab shows a view.
func (b *browser) tab(name string) {
	b.Helper()
	eval[chromedp.Void](b, "document.getElementById('tab-"+name+"').click()")
}

func (b *browser) console() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.messages, "\n")
}

// quiet fails the test if the console has a warning, an error or an exception.
func (b *browser) quiet() {
	b.Helper()
	if s := b.console(); s != "" {
		b.Errorf("the console has messages:\n%s", s)
	}
}

// eval returns the value of a JavaScript expression, which may be a promise.
func eval[T any](b *browser, js string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v\nconsole: %s", js, err, b.console())
	}
	return v
}

// until waits for a JavaScript expression to be true, and returns how long that took.
func (b *browser) until(js string) time.Duration {
	b.Helper()
	start := time.Now()
	for !eval[bool](b, "Boolean("+js+")") {
		if time.Since(start) > 20*time.Second {
			b.Fatalf("never true: %s\nconsole: %s\npage: %.400s", js, b.console(), eval[string](b, `document.body.innerText`))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

// drawn is true if the chart of a metric has pixels of a color.
func drawn(metric, color string) string {
	return fmt.Sprintf(`(() => {
		const c = document.querySelector('[data-metric=%s] canvas');
		if (!c || !c.width) return false;
		const copy = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
		copy.canvas.width = c.width;
		copy.canvas.height = c.height;
		copy.drawImage(c, 0, 0);
		const want = %s, d = copy.getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 0; i < d.length; i += 4) {
			if (d[i + 3] > 200 && Math.abs(d[i] - want[0]) + Math.abs(d[i + 1] - want[1]) + Math.abs(d[i + 2] - want[2]) < 12) n++;
		}
		return n > 30;
	})()`, quote(metric), color)
}

// Colors of the first runs.
const (
	blue   = "[0x4c, 0x7f, 0xe6]"
	orange = "[0xe2, 0x70, 0x3a]"
)

func quote(s string) string {
	b, _ := json.Marshal(s) // strings encode
	return string(b)
}

// shot writes a picture of the window if UITEST_PICTURES names a directory.
func (b *browser) shot(name string) {
	b.Helper()
	dir := os.Getenv("UITEST_PICTURES")
	if dir == "" {
		return
	}
	time.Sleep(400 * time.Millisecond)
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}
