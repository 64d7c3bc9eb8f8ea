package impl

import "testing"

func TestEachRunsEveryLevelAndRestores(t *testing.T) {
	before := Current()
	var ran []Level
	Each(t, func(t *testing.T) { ran = append(ran, Current()) })
	want := Available()
	if len(ran) != len(want) {
		t.Fatalf("ran %v, want %v", ran, want)
	}
	for i := range want {
		if ran[i] != want[i] {
			t.Errorf("ran %v, want %v", ran, want)
		}
	}
	if ran[0] != Generic {
		t.Error("generic is not first")
	}
	if Current() != before || before != want[len(want)-1] {
		t.Errorf("current is %v, was %v, best is %v", Current(), before, want[len(want)-1])
	}
}
