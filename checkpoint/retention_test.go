package checkpoint

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestKeep(t *testing.T) {
	all := []Saved{ // newest first
		{Step: 50, Age: 1 * time.Hour, Bytes: 10}, {Step: 40, Age: 2 * time.Hour, Bytes: 10}, {Step: 30, Age: 3 * time.Hour, Bytes: 10, Protected: true},
		{Step: 20, Age: 4 * time.Hour, Bytes: 10}, {Step: 10, Age: 5 * time.Hour, Bytes: 10},
	}
	for _, c := range []struct {
		r    Retention
		want []int
	}{
		{Retention{}, []int{50, 40, 30, 20, 10}},
		{Retention{Last: 1}, []int{50, 30}},
		{Retention{Last: 3}, []int{50, 40, 30, 20}},
		{Retention{Every: 20}, []int{50, 40, 30, 20}},
		{Retention{Every: 7}, []int{50, 30}},
		{Retention{Younger: 2 * time.Hour}, []int{50, 40, 30}},
		{Retention{Younger: time.Minute}, []int{50, 30}},
		{Retention{Last: 1, Every: 10}, []int{50, 40, 30, 20, 10}},
		{Retention{Bytes: 1}, []int{50, 30}},
		{Retention{Bytes: 35}, []int{50, 40, 30}},
		{Retention{Every: 20, Bytes: 30}, []int{50, 40, 30}},
	} {
		var got []int
		for i, keep := range c.r.Keep(all) {
			if keep {
				got = append(got, all[i].Step)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v keeps %v, want %v", c.r, got, c.want)
		}
	}
}

// A newest checkpoint that is also the best one is one of the last n.
func TestKeepNewestBest(t *testing.T) {
	all := []Saved{{Step: 3, Protected: true}, {Step: 2}, {Step: 1}}
	if got := (Retention{Last: 1}).Keep(all); !slices.Equal(got, []bool{true, false, false}) {
		t.Errorf("the last 1 of three: %v", got)
	}
}

// The newest and the protected are kept under any rules, and no rule keeps more than the rules without a limit.
func TestKeepProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []Saved
		step := 1000
		for range rapid.IntRange(0, 12).Draw(rt, "n") {
			step -= rapid.IntRange(1, 9).Draw(rt, "gap")
			all = append(all, Saved{step, time.Duration(1000-step) * time.Minute, rapid.Int64Range(0, 50).Draw(rt, "bytes"), rapid.Bool().Draw(rt, "protected")})
		}
		r := Retention{
			rapid.IntRange(0, 4).Draw(rt, "last"), rapid.IntRange(0, 5).Draw(rt, "every"),
			time.Duration(rapid.IntRange(0, 40).Draw(rt, "younger")) * time.Minute, rapid.Int64Range(0, 200).Draw(rt, "limit"),
		}
		keep := r.Keep(all)
		unlimited := r
		unlimited.Bytes = 0
		more := unlimited.Keep(all)
		size, deletable := int64(0), false
		for i, s := range all {
			if must := i == 0 || s.Protected; must && !keep[i] {
				rt.Fatalf("%+v deletes %d of %+v", r, i, all)
			} else if keep[i] {
				size += s.Bytes
				deletable = deletable || !must && s.Bytes > 0
			}
			if keep[i] && !more[i] {
				rt.Fatalf("%+v keeps %d of %+v, without a limit it is deleted", r, i, all)
			}
		}
		if r.Bytes > 0 && size > r.Bytes && deletable {
			rt.Fatalf("%+v leaves %d bytes of %+v", r, size, all)
		}
	})
}
