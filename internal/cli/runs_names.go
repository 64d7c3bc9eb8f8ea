package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"trireme/internal/conf"
	"trireme/internal/keys"
	"trireme/internal/runlog"
	"trireme/monitor"
)

// knownNames are the names that filters, sorting, columns and charts of some runs can use.
type knownNames struct {
	runs    int
	metrics map[string]bool
	others  map[string]bool // configuration keys and facts
	// summaries says that min.METRIC, max.METRIC and mean.METRIC are known too.
	summaries bool
}

func newKnownNames(facts ...string) *knownNames {
	k := &knownNames{metrics: map[string]bool{}, others: map[string]bool{}}
	for _, name := range facts {
		k.others[name] = true
	}
	return k
}

func (k *knownNames) add(run *runlog.Run) {
	k.runs++
	for name := range run.Config() {
		k.others[name] = true
	}
	for _, name := range run.Metrics() {
		k.metrics[name] = true
	}
}

// list returns all names; those of min.METRIC and so on are left out.
func (k *knownNames) list() []string {
	all := maps.Clone(k.others)
	maps.Copy(all, k.metrics)
	return slices.Sorted(maps.Keys(all))
}

func (k *knownNames) print(w io.Writer, asJSON bool) error {
	names := k.list()
	if asJSON {
		return writeJSON(w, struct {
			Schema string   `json:"schema"`
			Names  []string `json:"names"`
		}{"trireme.runs.names/1", names})
	}
	for _, name := range names {
		if _, err := fmt.Fprintln(w, monitor.EscapeControl(name)); err != nil {
			return err
		}
	}
	return nil
}

// summaries begin the names of values over all of a metric.
var summaries = []string{"min.", "max.", "mean."}

// check returns an error if no run has a name. A key of the configuration that runs of older versions lack is known.
func (k *knownNames) check(name string, dirs []string) error {
	metric, summary := name, ""
	for _, s := range summaries {
		if rest, ok := strings.CutPrefix(name, s); ok && k.summaries {
			metric, summary = rest, s
		}
	}
	if k.metrics[metric] || k.others[name] {
		return nil
	}
	if key, ok := keys.Find(name); ok && key.Type != keys.Group {
		return nil
	}
	near := conf.Nearest(name, k.list())
	if summary != "" {
		if near = k.nearMetric(metric); near != "" {
			near = summary + near
		}
	}
	return k.unknown(fmt.Sprintf("%q is no metric, configuration key or fact", name), near, dirs)
}

// checkMetric returns an error if no run has a metric.
func (k *knownNames) checkMetric(name string, dirs []string) error {
	if k.metrics[name] {
		return nil
	}
	return k.unknown(fmt.Sprintf("%q is no metric", name), k.nearMetric(name), dirs)
}

func (k *knownNames) nearMetric(name string) string {
	return conf.Nearest(name, slices.Sorted(maps.Keys(k.metrics)))
}

func (k *knownNames) unknown(what, near string, dirs []string) error {
	what += " of " + number(int64(k.runs), "run")
	if near != "" {
		what += fmt.Sprintf(". did you mean %q?", near)
	}
	try := "trireme runs ls --names"
	for _, d := range dirs {
		try += " " + quoted(d)
	}
	return usage(what, try)
}

// splitNames returns names that are separated by commas.
func splitNames(text string) (out []string) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
