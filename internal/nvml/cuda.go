package nvml

import "github.com/ebitengine/purego"

// HasCUDA reports whether the driver's CUDA library is installed, which programs need besides NVML.
func HasCUDA() bool {
	_, err := purego.Dlopen("libcuda.so.1", purego.RTLD_LAZY|purego.RTLD_LOCAL)
	return err == nil
}
