package nvml

import "trireme/internal/dl"

// HasCUDA reports whether the driver's CUDA library is installed, which programs need besides NVML.
func HasCUDA() bool {
	_, err := dl.Open("libcuda.so.1", false)
	return err == nil
}
