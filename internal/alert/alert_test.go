package alert

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"trireme/monitor"
)

type received struct {
	sync.Mutex
	messages []Message
}

func (r *received) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	var m Message
	if json.Unmarshal(b, &m) == nil {
		r.Lock()
		r.messages = append(r.messages, m)
		r.Unlock()
	}
}

func (r *received) states() (out []string) {
	r.Lock()
	defer r.Unlock()
	for _, m := range r.messages {
		out = append(out, m.State)
	}
	return out
}

// A rule fires once per incident and says when it is over.
func TestIncident(t *testing.T) {
	got := &received{}
	server := httptest.NewServer(got)
	defer server.Close()
	s := Open([]monitor.Alert{{When: "loss is NaN", Webhook: server.URL}, {When: "no step for 1s", Webhook: server.URL}}, Run{})
	for step, loss := range []float64{1, math.NaN(), math.NaN(), math.Inf(1), 2, 1, math.NaN()} {
		if err := s.Record(monitor.Record{Step: int64(step + 1), Loss: loss}); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); len(got.states()) < 4 && time.Since(began) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "firing over firing firing"; strings.Join(got.states(), " ") != want {
		t.Errorf("%v, want %s", got.states(), want)
	}
}

// A command that hangs slows neither records nor the end, and an error is printed once.
func TestHangs(t *testing.T) {
	printed := 0
	s := Open([]monitor.Alert{{When: "loss > 1", Command: "exit 3"}, {When: "loss > 2", Command: "sleep 60"}}, Run{Print: func(text string) {
		if strings.Contains(text, "exit 3") {
			printed++
		}
	}})
	began := time.Now()
	for step := range int64(1000) {
		if err := s.Record(monitor.Record{Step: step + 1, Loss: float64(step % 4)}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 5*time.Second { // one that waits takes a minute
		t.Errorf("1000 records took %v", took)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the end took %v", took)
	}
	if printed > 1 {
		t.Errorf("the error was printed %d times", printed)
	}
}

func TestCondition(t *testing.T) {
	for text, want := range map[string]string{
		"loss is NaN": "", "loss is nan for 3 steps": "", "no step for 2m": "", "host.disk_free < 20GB": "", "comm_fraction>30%": "", "grad_norm >= 1e3 for 20 steps": "",
		"": "no condition", "loss": "no condition", "loss < x": "not a number", "no step for 2": "not a time", "no step for -2s": "not a time", "loss > 1 for 0 steps": "at least 1",
	} {
		_, err := monitor.ParseCondition(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
