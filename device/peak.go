package device

import (
	"strings"

	"trireme/internal/nvml"
	"trireme/internal/pjrt/plugin"
	"trireme/tensor"
)

// peaks are dense bfloat16 and float16 FLOP/s of GPUs, of NVIDIA's data sheets, by the beginning of the name
// that the driver reports; the longest that fits counts.
var peaks = map[string]float64{
	"NVIDIA B200": 2250e12,
	"NVIDIA H200": 989.4e12, "NVIDIA H200 NVL": 835.5e12, "NVIDIA GH200": 989.4e12,
	"NVIDIA H100": 989.4e12, "NVIDIA H100 PCIe": 756e12, "NVIDIA H100 NVL": 835.5e12, "NVIDIA H800": 989.4e12,
	"NVIDIA A100": 312e12, "NVIDIA A800": 312e12, "NVIDIA A40": 149.7e12, "NVIDIA A30": 165e12, "NVIDIA A10": 125e12,
	"NVIDIA L40S": 362e12, "NVIDIA L40": 181e12, "NVIDIA L4": 121e12,
	"NVIDIA GeForce RTX 4090": 165.2e12, "NVIDIA GeForce RTX 3090": 71e12,
}

// otherCards are cards whose names begin with that of a faster one.
var otherCards = []string{"NVIDIA A10G", "NVIDIA A100X", "NVIDIA A10M", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop"}

// PeakFLOPS returns the peak FLOP/s of matrix products with operands of type dt on a GPU that a rank uses; 0
// if it is unknown, as for float32, which GPUs compute in several precisions.
func (c Config) PeakFLOPS(dt tensor.DType) float64 {
	if c.Name != CUDA || dt != tensor.BF16 && dt != tensor.F16 {
		return 0
	}
	g, err := readGPUs(nvml.File, plugin.Machine().LookupEnv)
	if err != nil || len(g.visible) == 0 {
		return 0
	}
	return peakOf(g.visible[0].Name)
}

func peakOf(card string) (flops float64) {
	for _, name := range otherCards {
		if strings.HasPrefix(card, name) {
			return 0
		}
	}
	longest := 0
	for name, v := range peaks {
		if strings.HasPrefix(card, name) && len(name) > longest {
			longest, flops = len(name), v
		}
	}
	return flops
}
