package browsertest

import (
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"trireme/internal/ui/uitest"
	"trireme/monitor"
)

// TestPictures writes the pictures of docs/ui.md.
func TestPictures(t *testing.T) {
	if os.Getenv("UITEST_PICTURES") == "" {
		t.Skip("pictures are not written: UITEST_PICTURES=DIR writes them")
	}
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	runs := []uitest.Run{plain("gpt-base", 2, 6000), plain("gpt-lr-high", 8, 6000), plain("gpt-lr-low", 1, 6000), plain("gpt-8-ranks", 3, 6000), plain("gpt-failed", 4, 420)}
	one := 1
	runs[4].Exit, runs[4].Max = &one, 6000
	runs[3].Steps, runs[3].Ranks, runs[3].Slow, runs[3].Exit = 3400, 8, 2, nil
	runs[3].Events = []monitor.Event{
		{Time: start, Kind: monitor.EventStart, Text: "started"},
		{Time: start.Add(time.Minute), Step: 500, Kind: monitor.EventCheckpoint, Text: "checkpoint saved"},
		{Time: start.Add(time.Minute), Step: 500, Kind: monitor.EventEvaluation, Text: "evaluation loss 2.1312", Samples: []string{"ROMEO:\nA light so early makes the morning stay\nAnd bids the lark be silent in the east?", "KING:\nThe state of all the world is in this hand,\nand he that speaks shall have it from my own."}},
		{Time: start.Add(5 * time.Minute), Step: 1862, Kind: monitor.EventNote, Text: "rank 2 takes 1.4 times the median of the others for 20 steps"},
	}
	for i := range runs {
		runs[i].Start = start.Add(time.Duration(i) * time.Hour)
	}
	dir := t.TempDir() + "/runs"
	ids := write(t, dir, runs...)
	if err := uitest.WriteTrace(ids[3], 4, 3, 6, 2); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir + "/..")
	for i, r := range runs {
		ids[i] = "runs/" + r.Name
	}
	b := newBrowser(t, 1280, 800)
	b.do(chromedp.EmulateViewport(1280, 780))
	address := serve(t, "runs")
	b.open(address, url.Values{"run": ids[:3], "focus": {ids[0]}, "smooth": {"0.6"}})
	b.until(drawn("loss", orange))
	b.until("[...trireme.state.runs.values()].every(r => r.health)")
	at := b.chart("loss")
	b.mouse(input.DispatchMouseEventTypeMouseMoved, at.X+at.W*0.42, at.Y+60)
	b.shot("ui-charts")
	b.scheme("dark")
	b.shot("ui-dark")
	b.scheme("light")
	b.mouse(input.DispatchMouseEventTypeMouseMoved, 2, 2)
	eval[any](b, "import('./state.js').then(s => s.select(["+quote(ids[3])+"]))")
	b.tab("run")
	b.until("document.querySelectorAll('.findings li').length")
	b.shot("ui-run")
	b.tab("time")
	b.until("document.querySelectorAll('#main canvas').length > 4")
	eval[any](b, "document.querySelector('[data-metric^=\"Own\"]').scrollIntoView()")
	b.shot("ui-ranks")
	b.tab("trace")
	b.until("document.querySelector('.timeline .keys span')")
	b.shot("ui-trace")
	b.quiet()
}
