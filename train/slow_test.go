package train

import (
	"strings"
	"testing"
	"time"

	"trireme/parallel"
)

func own(times ...time.Duration) (all []parallel.RankTimes) {
	for _, t := range times {
		all = append(all, parallel.RankTimes{Own: t})
	}
	return all
}

// A rank that is slow for slowSteps consecutive steps is named once; one slow step resets nothing else.
func TestSlowRanks(t *testing.T) {
	ms := time.Millisecond
	s := slowRanks{name: func(r int) string { return "rank 2 (n1, pid 7)" }}
	notes := 0
	for i := range 3 * slowSteps {
		times := own(10*ms, 11*ms, 14*ms, 9*ms)
		if i == 5 {
			times[2].Own = 10 * ms
		}
		if i > 30 && i%3 == 0 {
			times[0].Own = 40 * ms // now and then
		}
		skew, slowest, note := s.step(times)
		if i == 0 && (skew != 1.4 || slowest != 2) {
			t.Errorf("skew %v of rank %d", skew, slowest)
		}
		if note == nil {
			continue
		}
		notes++
		const want = "rank 2 (n1, pid 7) has been slow for 20 steps: 14ms a step without waiting for others, the median rank takes 10ms (1.40x)"
		if i != 5+slowSteps || len(note) != 1 || note[0] != want {
			t.Errorf("step %d: %s", i, note)
		}
	}
	if notes != 1 {
		t.Errorf("%d notes", notes)
	}
	if skew, _, note := new(slowRanks).step(own(ms)); skew != 0 || note != nil {
		t.Error("one rank has a skew")
	}
	if skew, slowest, _ := new(slowRanks).step(own(3*ms, 2*ms)); skew != 1.5 || slowest != 0 {
		t.Errorf("of two ranks: %v of rank %d", skew, slowest)
	}
}

// A slow reader's note says that the rank waits for data, a slow disk's that its checkpoint takes long, once.
func TestSlowData(t *testing.T) {
	ms := time.Millisecond
	s := slowRanks{}
	var notes []string
	for range slowSteps {
		times := own(10*ms, 30*ms)
		times[1].Data = 20 * ms
		_, _, note := s.step(times)
		notes = append(notes, note...)
	}
	if len(notes) != 1 || !strings.HasSuffix(notes[0], ": it waits 20ms for its batch") {
		t.Error(notes)
	}
	notes, s = nil, slowRanks{}
	for range 3 {
		times := own(10*ms, 10*ms, 10*ms)
		times[0].Save, times[1].Save, times[2].Save = time.Second, 4*time.Second, time.Second
		_, _, note := s.step(times)
		notes = append(notes, note...)
	}
	if len(notes) != 1 || notes[0] != "rank 1 took 4s to save its part of a checkpoint, the median rank 1s" {
		t.Error(notes)
	}
}
