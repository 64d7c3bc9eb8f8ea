package device

import "testing"

func TestPeakOf(t *testing.T) {
	for name, want := range map[string]float64{
		"NVIDIA H100 80GB HBM3": 989.4e12, "NVIDIA H100 PCIe": 756e12, "NVIDIA A100-SXM4-80GB": 312e12, "NVIDIA L40S": 362e12, "NVIDIA L4": 121e12,
		"NVIDIA A10G": 0, "NVIDIA A10": 125e12, "NVIDIA GeForce RTX 4090 D": 0, "Tesla V100-SXM2-16GB": 0, "": 0,
	} {
		if got := peakOf(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if DefaultConfig().PeakFLOPS(0) != 0 {
		t.Error("a peak for cpu")
	}
}
