package ui

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// axes of charts: the step, the tokens of all steps until then, the seconds since the first record, and the time.
var axes = []string{"step", "tokens", "time", "wall"}

func axisOf(r *http.Request) (string, error) {
	a := cmp.Or(r.FormValue("axis"), "step")
	if !slices.Contains(axes, a) {
		return "", badRequest("axis is %s; it must be one of %s", strconv.Quote(a), strings.Join(axes, ", "))
	}
	return a, nil
}

type metricsAnswer struct {
	Schema  string   `json:"schema"`
	Metrics []string `json:"metrics"`
}

// hidden metrics are axes.
var hidden = []string{"step", "time", "tokens_total", "nonfinite", "max_steps"}

// metrics lists the metrics that one of the runs has.
func (s *Server) metrics(r *http.Request) (any, error) {
	entries, err := s.store.many(r)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, e := range entries {
		run, err := e.records(r.Context())
		if err != nil {
			return nil, err
		}
		out = append(out, run.Metrics()...)
	}
	slices.Sort(out)
	out = slices.DeleteFunc(slices.Compact(out), func(m string) bool { return slices.Contains(hidden, m) })
	return metricsAnswer{"trireme.ui.metrics/1", out}, nil
}

type seriesAnswer struct {
	Schema string       `json:"schema"`
	Axis   string       `json:"axis"`
	Ranges []axisRange  `json:"ranges"`
	Xs     [][]float64  `json:"xs"` // positions; series of the same records share them
	Series []seriesData `json:"series"`
}

type axisRange struct {
	Run  string  `json:"run"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// seriesData is a metric of a run. Mean, Min and Max are those of a bucket of records; Min and Max are left out where
// each bucket is one record. A value that is not finite is null.
type seriesData struct {
	Run    string  `json:"run"`
	Metric string  `json:"metric"`
	X      int     `json:"x"` // index of Xs
	Mean   numbers `json:"mean"`
	Min    numbers `json:"min,omitempty"`
	Max    numbers `json:"max,omitempty"`
}

// numbers encodes as JSON numbers of 7 digits, and null for those that are not finite.
type numbers []float64

// MarshalJSON implements json.Marshaler.
func (n numbers) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 2+10*len(n)), '[')
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, v, 'g', 7, 64)
	}
	return append(b, ']'), nil
}

const (
	maxMetrics = 256
	maxPoints  = 4000
)

// series returns metrics of runs over a range of an axis, in buckets.
func (s *Server) series(r *http.Request) (any, error) {
	entries, err := s.store.many(r)
	if err != nil {
		return nil, err
	}
	metrics := r.URL.Query()["metric"]
	if len(metrics) == 0 || len(metrics) > maxMetrics {
		return nil, badRequest("%d metrics; it must be 1 to %d", len(metrics), maxMetrics)
	}
	axis, err := axisOf(r)
	if err != nil {
		return nil, err
	}
	from, err := number(r, "from", math.Inf(-1))
	if err != nil {
		return nil, err
	}
	to, err := number(r, "to", math.Inf(1))
	if err != nil {
		return nil, err
	}
	points, err := count(r, "points", 500, maxPoints)
	if err != nil {
		return nil, err
	}
	parts, errs := make([]seriesAnswer, len(entries)), make([]error, len(entries))
	var wait sync.WaitGroup
	for i, e := range entries {
		wait.Go(func() { parts[i], errs[i] = e.series(r.Context(), metrics, axis, from, to, points) })
	}
	wait.Wait()
	out := seriesAnswer{Schema: "trireme.ui.series/1", Axis: axis, Ranges: []axisRange{}, Xs: [][]float64{}, Series: []seriesData{}}
	for i, p := range parts {
		if errs[i] != nil {
			return nil, errs[i]
		}
		for _, one := range p.Series {
			one.X += len(out.Xs)
			out.Series = append(out.Series, one)
		}
		out.Ranges = append(out.Ranges, p.Ranges...)
		out.Xs = append(out.Xs, p.Xs...)
	}
	return out, nil
}

func (e *entry) series(ctx context.Context, metrics []string, axis string, from, to float64, points int) (a seriesAnswer, err error) {
	run, err := e.records(ctx)
	if err != nil {
		return a, err
	}
	x, ok, err := newScale(run, axis)
	if err != nil || !ok {
		return a, err
	}
	a.Ranges = []axisRange{{e.id, x.from, x.to}}
	first, last, err := x.steps(from, to)
	if err != nil || first > last {
		return a, err
	}
	for _, m := range metrics {
		s, err := run.Series(m, first, last, points)
		if err != nil {
			return a, err
		}
		if len(s.Buckets) == 0 {
			continue
		}
		d, xs := seriesData{Run: e.id, Metric: m}, make([]float64, len(s.Buckets))
		for i, b := range s.Buckets {
			xs[i] = x.of(b)
			d.Mean = append(d.Mean, b.Mean)
			if !s.Exact {
				d.Min, d.Max = append(d.Min, b.Min), append(d.Max, b.Max)
			}
		}
		if d.X = slices.IndexFunc(a.Xs, func(o []float64) bool { return slices.Equal(o, xs) }); d.X < 0 {
			d.X = len(a.Xs)
			a.Xs = append(a.Xs, xs)
		}
		a.Series = append(a.Series, d)
	}
	return a, nil
}
