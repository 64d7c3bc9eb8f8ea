package bench

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestGEMMReport(t *testing.T) {
	shapes := []GEMMShape{{M: 20, K: 30, N: 40}, {M: 20, K: 30, N: 40, Trans: true}, {M: 20, K: 30, N: 40, DX: true}, {M: 20, K: 30, N: 40, DW: true}}
	r, err := GEMM(context.Background(), GEMMOptions{Threads: 2, Time: time.Millisecond, Shapes: shapes})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes {
		if v := r.GFLOPS[s.String()]; v.N < 9 || v.Median <= 0 || v.Best < v.Median {
			t.Errorf("%v: %+v", s, v)
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"threads":2`, `"gflops":{"20x30x40":{"median":`, `"20x30x40_t"`, `"fma_peak_gflops":`, `"percent_of_peak":{`} {
		if !strings.Contains(string(b), key) {
			t.Errorf("%s lacks %s", b, key)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := GEMM(ctx, GEMMOptions{}); err == nil {
		t.Error("a canceled measurement returned no error")
	}
}
