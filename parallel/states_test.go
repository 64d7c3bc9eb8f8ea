package parallel

import (
	"fmt"
	"strings"
	"testing"
)

// TestStates: each transition of the table works, and any other panics with the state and the change.
func TestStates(t *testing.T) {
	changes := []struct {
		name string
		do   func(s *states)
	}{
		{"be held", func(s *states) { s.hold(nil) }},
		{"be gathered", func(s *states) { s.gather(nil, nil, nil) }},
		{"be updated", func(s *states) { s.update(nil) }},
		{"become ready", func(s *states) { s.setReady() }},
		{"be freed", func(s *states) { s.free() }},
		{"be zeroed", func(s *states) { s.begin() }},
		{"be written", func(s *states) { s.open(nil) }},
		{"be reduced", func(s *states) { s.close() }},
		{"be finished", func(s *states) { s.finish() }},
	}
	allowed := map[string]string{
		"sharded, be held": "ready", "sharded, be gathered": "gathering",
		"gathering, become ready": "ready",
		"ready, be updated":       "updating", "ready, be freed": "sharded",
		"updating, be updated": "updating", "updating, become ready": "ready",
		"empty, be zeroed": "empty", "empty, be written": "being written",
		"being written, be reduced": "being reduced",
		"being reduced, be written": "being written", "being reduced, be finished": "reduced",
		"reduced, be zeroed": "empty",
	}
	try := func(s states, do func(*states)) (after states, said string) {
		defer func() {
			if p := recover(); p != nil {
				said = fmt.Sprint(p)
			}
			after = s
		}()
		do(&s)
		return s, ""
	}
	seen := 0
	for i, c := range changes {
		for n := range uint8(4) {
			s, state, after := states{values: paramState(n)}, paramState(n).String(), func(s states) string { return s.values.String() }
			if i > 4 {
				s, state, after = states{grads: gradState(n)}, gradState(n).String(), func(s states) string { return s.grads.String() }
			}
			got, said := try(s, c.do)
			want, ok := allowed[state+", "+c.name]
			switch {
			case ok && (said != "" || after(got) != want):
				t.Errorf("%s, %s: %s, %q, want %s", state, c.name, after(got), said, want)
			case !ok && (after(got) != state || !strings.Contains(said, "in state "+state+" cannot "+c.name)):
				t.Errorf("%s, %s: is %s afterwards and says %q", state, c.name, after(got), said)
			}
			if ok {
				seen++
			}
		}
	}
	if seen != len(allowed) {
		t.Errorf("%d of %d transitions tried", seen, len(allowed))
	}
}

// TestBatchCount: the gradients are empty at the first bucket of each step only.
func TestBatchCount(t *testing.T) {
	var s states
	for range 2 {
		s.begin()
		for i := range 3 {
			s.open(nil)
			if _, first := s.close(); first != (i == 0) || s.batches != i+1 {
				t.Errorf("micro-batch %d: first %t, count %d", i, first, s.batches)
			}
		}
		s.finish()
	}
}
