package xla

import "trireme/internal/pjrt"

// Flags returns the compiler's flags for a platform. A compiler that lacks one works without it.
func Flags(platform string) []pjrt.Flag {
	if platform != "cuda" {
		return nil
	}
	return []pjrt.Flag{
		// Collectives of units are large enough and one by one each hides behind the computation of
		// another unit. Combined ones wait for the last operand, without anything left to compute.
		{Name: "xla_gpu_reduce_scatter_combine_threshold_bytes", Value: int64(1)},
		{Name: "xla_gpu_all_gather_combine_threshold_bytes", Value: int64(1)},
	}
}
