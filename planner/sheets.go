package planner

import (
	"fmt"
	"slices"
	"strings"
)

// GPU has the rates of a rank by a data sheet: dense products (without sparsity) in FLOP/s by type, with TF32 for float32 where
// the GPU has it, and memory bandwidth in bytes per second.
type GPU struct {
	Name     string  `json:"name"`
	Float32  float64 `json:"float32_flops"`
	BFloat16 float64 `json:"bfloat16_flops"`
	Memory   float64 `json:"memory_bytes_per_second"`
	Capacity float64 `json:"memory_bytes"`
	Link     string  `json:"link"` // the usual link between GPUs of a host, a name of Links
	Source   string  `json:"source"`
}

// SheetLink is a link's rate in one direction per GPU or host, in bytes per second, and a usual latency in seconds.
type SheetLink struct {
	Name      string  `json:"name"`
	Bandwidth float64 `json:"bytes_per_second"`
	Latency   float64 `json:"latency_seconds"` // assumed
	Source    string  `json:"source"`
}

// GPUs are rates of data sheets.
var GPUs = []GPU{
	{"v100", 15.7e12, 125e12, 900e9, 32e9, "nvlink2", "NVIDIA V100 SXM2 data sheet (the bfloat16 rate is float16's)"},
	{"a10", 62.5e12, 125e12, 600e9, 24e9, "pcie4", "NVIDIA A10 data sheet"},
	{"a100", 156e12, 312e12, 2039e9, 80e9, "nvlink3", "NVIDIA A100 80GB SXM data sheet"},
	{"a100-40gb", 156e12, 312e12, 1555e9, 40e9, "nvlink3", "NVIDIA A100 40GB SXM data sheet"},
	{"l4", 60e12, 121e12, 300e9, 24e9, "pcie4", "NVIDIA L4 data sheet, halved to dense"},
	{"l40s", 183e12, 362e12, 864e9, 48e9, "pcie4", "NVIDIA L40S data sheet, dense"},
	{"rtx4090", 82.6e12, 165.2e12, 1008e9, 24e9, "pcie4", "NVIDIA Ada GPU architecture whitepaper (bfloat16 with float32 sums)"},
	{"h100", 494.7e12, 989.4e12, 3352e9, 80e9, "nvlink4", "NVIDIA H100 SXM data sheet, halved to dense"},
	{"h100-pcie", 378e12, 756e12, 2039e9, 80e9, "pcie5", "NVIDIA H100 PCIe data sheet, halved to dense"},
	{"h200", 494.7e12, 989.4e12, 4800e9, 141e9, "nvlink4", "NVIDIA H200 SXM data sheet, halved to dense"},
	{"b200", 1125e12, 2250e12, 8000e9, 180e9, "nvlink5", "NVIDIA DGX B200 data sheet, divided by 8 and halved to dense"},
	{"mi250x", 47.9e12, 191.5e12, 1638e9, 64e9, "xgmi3", "AMD Instinct MI250X data sheet, halved: a rank is one of two dies"},
	{"mi300x", 653.7e12, 1307.4e12, 5300e9, 192e9, "xgmi4", "AMD Instinct MI300X data sheet (float32 as TF32)"},
}

// Links are rates of data sheets in one direction: of one GPU to all others of its host, of one PCIe slot, or of one
// network port.
var Links = []SheetLink{
	{"nvlink2", 150e9, 5e-6, "NVIDIA V100: 300 GB/s in both directions"},
	{"nvlink3", 300e9, 5e-6, "NVIDIA A100: 600 GB/s in both directions"},
	{"nvlink4", 450e9, 5e-6, "NVIDIA H100: 900 GB/s in both directions"},
	{"nvlink5", 900e9, 5e-6, "NVIDIA Blackwell: 1.8 TB/s in both directions"},
	{"xgmi3", 200e9, 5e-6, "AMD MI250X: 8 Infinity Fabric links of 100 GB/s in both directions leave a package of two dies"},
	{"xgmi4", 448e9, 5e-6, "AMD MI300X: 7 Infinity Fabric links, 896 GB/s in both directions"},
	{"pcie3", 15.75e9, 10e-6, "PCI Express 3.0 x16: 8 GT/s, 128b/130b"},
	{"pcie4", 31.5e9, 10e-6, "PCI Express 4.0 x16: 16 GT/s, 128b/130b"},
	{"pcie5", 63e9, 10e-6, "PCI Express 5.0 x16: 32 GT/s, 128b/130b"},
	{"edr", 12.5e9, 5e-6, "InfiniBand EDR, 100 Gbit/s per port"},
	{"hdr", 25e9, 5e-6, "InfiniBand HDR, 200 Gbit/s per port"},
	{"ndr", 50e9, 5e-6, "InfiniBand NDR, 400 Gbit/s per port"},
	{"xdr", 100e9, 5e-6, "InfiniBand XDR, 800 Gbit/s per port"},
	{"1gbe", 0.125e9, 50e-6, "IEEE 802.3, 1 Gbit/s"},
	{"10gbe", 1.25e9, 30e-6, "IEEE 802.3, 10 Gbit/s"},
	{"25gbe", 3.125e9, 30e-6, "IEEE 802.3, 25 Gbit/s"},
	{"100gbe", 12.5e9, 20e-6, "IEEE 802.3, 100 Gbit/s"},
	{"efa", 6.25e9, 20e-6, "AWS p4d: 4 x 100 Gbit/s per host of 8 GPUs, per GPU"},
	{"efav2", 50e9, 20e-6, "AWS p5: 32 x 100 Gbit/s per host of 8 GPUs, per GPU"},
}

// ParseGPU returns the GPU of a name.
func ParseGPU(name string) (GPU, error) {
	var names []string
	for _, g := range GPUs {
		if g.Name == strings.ToLower(name) {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return GPU{}, fmt.Errorf("planner: GPU %q is not one of %s", name, strings.Join(names, ", "))
}

// ParseLink returns the link of a name.
func ParseLink(name string) (SheetLink, error) {
	i := slices.IndexFunc(Links, func(l SheetLink) bool { return l.Name == strings.ToLower(name) })
	if i < 0 {
		var names []string
		for _, l := range Links {
			names = append(names, l.Name)
		}
		return SheetLink{}, fmt.Errorf("planner: link %q is not one of %s", name, strings.Join(names, ", "))
	}
	return Links[i], nil
}
