package parallel

import (
	"testing"
	"time"
)

func TestRankTimes(t *testing.T) {
	for _, n := range []int{2, MaxRankTimes, MaxRankTimes + 1} {
		words := make([]int64, n*rankWords(n))
		want := RankTimes{5, 4, 3, 2}
		want.put(words, n-1, n)
		if n > MaxRankTimes {
			want = RankTimes{Own: 5}
		}
		got := rankTimes(words, n)
		if len(got) != n || got[n-1] != want || got[0] != (RankTimes{}) {
			t.Errorf("%d ranks: %v", n, got)
		}
	}
}

// TestPause: time between Pause and Resume, and waits in it, do not count.
func TestPause(t *testing.T) {
	e := &Engine{}
	e.Resume()
	e.period.began = e.period.began.Add(-10 * time.Second) // steps
	e.period.waited = 4 * time.Second
	e.CountData(time.Second)
	e.Pause()
	e.period.paused = e.period.paused.Add(-3 * time.Second) // a checkpoint
	e.period.began = e.period.began.Add(-3 * time.Second)
	e.period.waited += time.Second
	e.CountSave(2 * time.Second)
	e.Resume()
	got := e.period.end()
	for i, v := range []struct{ got, want time.Duration }{{got.Own, 6 * time.Second}, {got.Data, time.Second}, {got.Comm, 4 * time.Second}, {got.Save, 2 * time.Second}} {
		if d := v.got - v.want; d < 0 || d >= time.Second { // the machine may be loaded; a wrong sum differs by a second or more
			t.Errorf("time %d: %v, want %v", i, v.got, v.want)
		}
	}
	if got := e.period.end(); got.Data != 0 || got.Comm != 0 || got.Save != 0 || got.Own > time.Second {
		t.Errorf("the next period: %+v", got)
	}
}
