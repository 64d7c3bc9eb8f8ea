package trackers

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"trireme/monitor"
)

// TestGrafana checks that the queries of the dashboard use only metrics and labels that exist, and that panels
// have IDs of their own and do not overlap.
func TestGrafana(t *testing.T) {
	m := newMetrics(Run{})
	m.Record(wholeRecord(1))
	m.Evaluate(monitor.Evaluation{Step: 1, Time: time.Now()})
	written := map[string][]string{} // labels by name
	for line := range strings.Lines(string(expose(m.read(), true))) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, labels, _ := strings.Cut(line[:strings.LastIndex(line, " ")], "{")
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(labels, -1) {
			written[name] = append(written[name], l[1])
		}
		written[name] = append(written[name], "instance") // of Prometheus
	}
	type grid struct{ X, Y, W, H int }
	var board struct {
		Templating struct {
			List []struct {
				Query any
			}
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos grid
			Targets []struct{ RefID, Expr, LegendFormat string }
		}
	}
	reply := httptest.NewRecorder()
	dashboard(reply, httptest.NewRequest(http.MethodGet, "/grafana.json", nil))
	if err := json.Unmarshal(reply.Body.Bytes(), &board); err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\btrireme_\w+`)
	selectors := regexp.MustCompile(`\b(trireme_\w+)\{([^}]*)\}`)
	check := func(where, expr string) {
		all := names.FindAllString(expr, -1)
		if len(all) == 0 {
			t.Errorf("%s: %q has no metric", where, expr)
		}
		for _, name := range all {
			if written[name] == nil {
				t.Errorf("%s: %s is not written", where, name)
			}
		}
		for _, s := range selectors.FindAllStringSubmatch(expr, -1) {
			for _, l := range regexp.MustCompile(`(\w+)=~?"`).FindAllStringSubmatch(s[2], -1) {
				if !slices.Contains(written[s[1]], l[1]) {
					t.Errorf("%s: %s has no label %s, but %v", where, s[1], l[1], written[s[1]])
				}
			}
		}
	}
	for _, v := range board.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			check("a variable", q["query"].(string))
		}
	}
	ids := map[int]bool{}
	cells := map[[2]int]string{}
	for _, p := range board.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("%+v: no ID of its own, no title or no query", p)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s overlaps %q or the edge", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		for _, q := range p.Targets {
			check(p.Title, q.Expr)
			for _, l := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				if name := names.FindString(q.Expr); !slices.Contains(written[name], l[1]) {
					t.Errorf("%s: %s has no label %s", p.Title, name, l[1])
				}
			}
		}
	}
	if len(ids) < 20 {
		t.Errorf("%d panels", len(ids))
	}
}
