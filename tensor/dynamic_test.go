package tensor

import (
	"encoding/json"
	"os"
	"testing"
)

// The map equals that of bitsandbytes, except for its order.
func TestDynamicMap(t *testing.T) {
	data, err := os.ReadFile("../optim/testdata/optimizers.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Signed   []float32 `json:"dynamic_map"`
		Unsigned []float32 `json:"unsigned_dynamic_map"`
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	for signed, want := range map[bool][]float32{true: golden.Signed, false: golden.Unsigned} {
		m, zero := DynamicMap(signed)
		if m[0] != 0 {
			t.Errorf("signed %v: byte 0 is %v", signed, m[0])
		}
		for i, w := range want {
			if got := m[(i-zero)&255]; got != w {
				t.Errorf("signed %v: number %d is %v, want %v", signed, i, got, w)
			}
		}
	}
}
