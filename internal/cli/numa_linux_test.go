package cli

import "testing"

func TestAnyCPU(t *testing.T) {
	allowed := func(cpu int) bool { return cpu == 5 }
	for list, want := range map[string]bool{"0-3": false, "0-3,5": true, "4-7": true, "5": true, "": false, "a-b": false, "6-4": false} {
		if anyCPU(list, allowed) != want {
			t.Errorf("%q: not %v", list, want)
		}
	}
	if n := autoRanks(); n < 1 {
		t.Errorf("%d ranks", n)
	}
}
