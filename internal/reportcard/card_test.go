package reportcard_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"trireme/fault"
	"trireme/internal/reportcard"
	"trireme/internal/runlog"
	"trireme/internal/ui/uitest"
	"trireme/monitor"
)

const hostile = "<script>alert(1)</script>\x1b[31m| `x` *y* \u202e"

func card(t *testing.T) reportcard.Card {
	t.Helper()
	dir, code := t.TempDir(), 1
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	err := uitest.Run{
		Name: hostile, Seed: 7, Steps: 200, Max: 200, Ranks: 2, LR: 3e-4, Exit: &code, Start: start,
		Config: "training:\n  learning_rate: 3e-4\ndata:\n  path: \"<img src=x onerror=alert(1)>\"\n",
		Events: []monitor.Event{{Time: start, Step: 3, Kind: monitor.EventAlert, Text: hostile}},
	}.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	run, err := runlog.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	c, err := reportcard.Of(run, fault.Setting.String, start)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	if err := card(t).WriteMarkdown(&b, func(i int) string { return fmt.Sprintf("report/%d.svg", i) }); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, want := range []string{"Verdict: **", "## Run", "## Configuration", "training.learning\\_rate", "## Events", "](report/0.svg)", "ended"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	for _, bad := range []string{"<script", "<img", "\x1b", "\u202e"} {
		if strings.Contains(out, bad) {
			t.Errorf("the report has %q as it was", bad)
		}
	}
	for line := range strings.Lines(out) { // a row of a table has two cells
		if n := len(regexp.MustCompile(`(^|[^\\])\|`).FindAllString(line, -1)); strings.HasPrefix(line, "|") && n != 3 {
			t.Errorf("a row with %d separators: %s", n, line)
		}
	}
}

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	c := card(t)
	if err := c.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	if n := strings.Count(out, "<svg "); n != len(c.Plots) || n < 4 {
		t.Errorf("%d charts, want %d", n, len(c.Plots))
	}
	for _, bad := range []string{"<script", "<img", "http://www.w3.org/1999", "src=\"", "href="} {
		if strings.Contains(out, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(out, "default-src 'none'") {
		t.Error("the page may load what it names")
	}
}

func TestSVG(t *testing.T) {
	lines := []reportcard.Line{
		{Name: hostile, Buckets: []runlog.Bucket{{Step: 1, LastStep: 4, Count: 4, Min: 1, Max: 9, Mean: 3}, {Step: 5, LastStep: 8, NonFinite: 4}}},
		{Name: "empty"},
		{Name: "point", Buckets: []runlog.Bucket{{Step: 3, LastStep: 3, Count: 1, Min: 2, Max: 2, Mean: 2}}},
	}
	for _, lines := range [][]reportcard.Line{lines, lines[1:], lines[1:2], nil} {
		for _, logarithmic := range []bool{false, true} {
			d := xml.NewDecoder(strings.NewReader(reportcard.SVG(hostile, lines, logarithmic)))
			for {
				_, err := d.Token()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%d lines: %v", len(lines), err)
				}
			}
		}
	}
}
