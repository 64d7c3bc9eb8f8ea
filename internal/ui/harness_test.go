package ui_test

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"trireme/internal/ui"
	"trireme/internal/ui/uitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves dirs until the test ends.
func serve(t testing.TB, cfg ui.Config) *httptest.Server {
	t.Helper()
	s, err := ui.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.CloseClientConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		h.Close()
		h.Client().CloseIdleConnections()
	})
	return h
}

// write writes a run of a number of steps to a new directory NAME.
func write(t testing.TB, r uitest.Run) (root, dir string) {
	t.Helper()
	root = t.TempDir()
	dir = filepath.Join(root, r.Name)
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	return root, dir
}

func plain(name string, steps int) uitest.Run {
	zero := 0
	return uitest.Run{Name: name, Seed: 7, Steps: steps, Max: steps, Ranks: 2, LR: 2e-3, Exit: &zero, Config: "training: {learning_rate: 2e-3}\n"}
}

// get returns the status of a request, and decodes its JSON into v.
func get(t testing.TB, h *httptest.Server, path string, q url.Values, v any) int {
	t.Helper()
	res, err := h.Client().Get(h.URL + path + "?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if v != nil {
		if err := json.Unmarshal(b, v); err != nil {
			t.Fatalf("%s: %v: %.300s", path, err, b)
		}
	}
	return res.StatusCode
}

type series struct {
	Schema string
	Axis   string
	Ranges []struct{ From, To float64 }
	Xs     [][]float64
	Series []struct {
		Run, Metric    string
		X              int
		Mean, Min, Max []*float64
	}
}
