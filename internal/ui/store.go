package ui

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// store has the runs of the directories.
type store struct {
	dirs   []string
	mu     sync.RWMutex
	runs   map[string]*entry // by id
	traces layouts
}

func newStore(dirs []string) *store { return &store{dirs: dirs, runs: map[string]*entry{}} }

// rescan searches the directories again. It returns the ids of runs that are new or gone.
func (s *store) rescan() (added, gone []string) {
	found := find(s.dirs)
	ids := map[string]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range found {
		ids[p.id] = true
		if e := s.runs[p.id]; e == nil {
			s.runs[p.id] = &entry{location: p}
			added = append(added, p.id)
		} else {
			e.setName(p.name)
		}
	}
	for id, e := range s.runs {
		if !ids[id] {
			delete(s.runs, id)
			gone = append(gone, id)
			_ = e.close() // only read
		}
	}
	return added, gone
}

func (s *store) all() []*entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*entry, 0, len(s.runs))
	for _, e := range s.runs {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return out
}

// one returns the run that a request names.
func (s *store) one(r *http.Request) (*entry, error) {
	all, err := s.many(r)
	if err == nil && len(all) != 1 {
		err = badRequest("one run is needed, the request names %d", len(all))
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// maxSelected is the number of runs of a request.
const maxSelected = 64

// many returns the runs that a request names.
func (s *store) many(r *http.Request) ([]*entry, error) {
	ids := r.URL.Query()["run"]
	if len(ids) > maxSelected {
		return nil, badRequest("%d runs; the limit is %d", len(ids), maxSelected)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*entry
	for _, id := range ids {
		e := s.runs[id]
		if e == nil {
			return nil, notFound("there is no run %s", strconv.Quote(id))
		}
		out = append(out, e)
	}
	return out, nil
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, e := range s.runs {
		errs = append(errs, e.close())
	}
	s.runs = map[string]*entry{}
	return errors.Join(errs...)
}

// number reads a number of a request, or returns its default.
func number(r *http.Request, name string, otherwise float64) (float64, error) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v || v > 1e300 || v < -1e300 {
		return 0, badRequest("%s is %s, not a number", name, strconv.Quote(text))
	}
	return v, nil
}

// count reads a positive number of a request with a limit, or returns its default.
func count(r *http.Request, name string, otherwise, limit int) (int, error) {
	v, err := number(r, name, float64(otherwise))
	if err != nil {
		return 0, err
	}
	if v < 1 || v > float64(limit) {
		return 0, badRequest("%s is %v; it must be 1 to %d", name, v, limit)
	}
	return int(v), nil
}
