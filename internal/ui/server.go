package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// Config says what a Server serves.
type Config struct {
	Dirs []string // runs are searched in these directories and below
	// Token must be in each request; empty: none is needed, and requests must name this server as their host.
	Token string
}

// Server is an http.Handler with the page and its data. Methods are safe for concurrent use.
type Server struct {
	handler http.Handler
	store   *store
	live    *broadcast
	ctx     context.Context // until Close
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// New searches for runs and begins to watch them.
func New(cfg Config) (*Server, error) {
	files, err := assets()
	if err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{store: newStore(cfg.Dirs), live: newBroadcast(), ctx: ctx, cancel: cancel}
	mux := http.NewServeMux()
	for path, file := range files {
		if path == "/" {
			path = "/{$}"
		}
		mux.Handle("GET "+path, file)
	}
	for path, h := range map[string]func(*http.Request) (any, error){
		"runs": s.runs, "run": s.run, "metrics": s.metrics, "series": s.series, "at": s.at,
		"compare": s.compare, "traces": s.traces, "trace": s.trace,
	} {
		mux.HandleFunc("GET /api/"+path, answer(h))
	}
	mux.HandleFunc("GET /api/live", s.serveLive)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "there is no such page")
	})
	s.handler = guard(mux, cfg.Token)
	s.store.rescan()
	s.done.Go(s.watch)
	s.done.Go(s.judgeRows)
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends live connections and closes the runs. Requests in progress may fail.
func (s *Server) Close() error {
	s.cancel()
	s.done.Wait()
	return s.store.close()
}

// statusError is an error with its HTTP status.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func badRequest(format string, args ...any) error {
	return &statusError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &statusError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// answer writes what h returns as JSON.
func answer(h func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := h(r)
		if err != nil {
			status := http.StatusInternalServerError
			if se := (*statusError)(nil); errors.As(err, &se) {
				status = se.status
			}
			fail(w, status, err.Error())
			return
		}
		b, err := json.Marshal(v)
		if err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b) // the client may be gone
	}
}

// fail writes an error as the JSON of every answer that is none.
func fail(w http.ResponseWriter, status int, text string) {
	b, _ := json.Marshal(struct { // strings always encode
		Schema string `json:"schema"`
		Error  string `json:"error"`
	}{"trireme.ui.error/1", text})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
