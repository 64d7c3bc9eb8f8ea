package ui

import (
	"math"
	"net/http"
	"slices"
	"strings"
)

type atAnswer struct {
	Schema string  `json:"schema"`
	Runs   []atRun `json:"runs"`
}

type atRun struct {
	Run    string              `json:"run"`
	Step   int64               `json:"step"`
	Values map[string]*float64 `json:"values"`
}

// at returns all values of runs at a position: those of the last step until then.
func (s *Server) at(r *http.Request) (any, error) {
	entries, err := s.store.many(r)
	if err != nil {
		return nil, err
	}
	axis, err := axisOf(r)
	if err != nil {
		return nil, err
	}
	at, err := number(r, "x", 0)
	if err != nil {
		return nil, err
	}
	out := atAnswer{"trireme.ui.at/1", []atRun{}}
	for _, e := range entries {
		run, err := e.records(r.Context())
		if err != nil {
			return nil, err
		}
		x, ok, err := newScale(run, axis)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		step := clampStep(math.Round(at))
		if axis != "step" {
			if _, step, err = x.around(at); err != nil {
				return nil, err
			}
		}
		row, ok, err := run.At(step)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		values := map[string]*float64{}
		for name, v := range row.Values {
			if !slices.Contains(hidden, name) && !strings.HasPrefix(name, "@") {
				values[name] = finite(v)
			}
		}
		out.Runs = append(out.Runs, atRun{e.id, row.Step, values})
	}
	return out, nil
}
