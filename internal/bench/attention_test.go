package bench

import (
	"context"
	"testing"
	"time"

	"trireme/device"
	"trireme/tensor"
)

func TestAttentionReport(t *testing.T) {
	r, err := Attention(context.Background(), AttentionOptions{Lengths: []int{30, 90}, HeadDim: 24, DType: tensor.BF16, Rounds: 3, Time: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.Threads != 1 || r.DType != "bfloat16" || len(r.Lengths) != 2 || r.Lengths[1].Length != 90 {
		t.Fatalf("%+v", r)
	}
	for _, l := range r.Lengths {
		for _, f := range []AttentionFigure{l.Forward, l.Backward} {
			if f.Median <= 0 || f.Best < f.Median || f.Ratio <= 0 {
				t.Errorf("length %d: %+v", l.Length, f)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Attention(ctx, AttentionOptions{Lengths: []int{30}}); err == nil {
		t.Error("a canceled measurement returned no error")
	}
}

// FLOPs count each query with the keys that it sees, 4 or 10 times the head's dimension.
func TestAttentionWork(t *testing.T) {
	b, err := device.Open("cpu", device.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	h := newAttentionHead(b, tensor.F32, 3, 8)
	if want := [2]float64{6 * 4 * 8, 6 * 10 * 8}; h.work != want {
		t.Errorf("%v FLOPs, want %v", h.work, want)
	}
}
