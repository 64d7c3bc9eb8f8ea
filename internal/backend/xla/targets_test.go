package xla

import (
	"testing"

	"trireme/internal/backend/xla/cudnn"
)

func TestTargets(t *testing.T) {
	for name, memory := range map[string]int64{"h100": 84942979072, "h200": 151397597184} {
		x, err := FindTarget(name)
		if err != nil || x.Memory != memory || x.GPU != (cudnn.Device{Major: 9}) {
			t.Errorf("%s: %s of %d bytes, %+v, %v", name, x.Name, x.Memory, x.GPU, err)
		}
	}
	const other = "gpu_device_info {\n  device_memory_size: 1\n  cuda_compute_capability {\n    major: 10\n    minor: 3\n  }\n}\ndevice_description_str: \"GPU\"\n"
	if x, err := parseTarget(other); err != nil || x.GPU != (cudnn.Device{Major: 10, Minor: 3}) {
		t.Errorf("%+v, %v", x.GPU, err)
	}
}

func FuzzTarget(f *testing.F) {
	f.Add("gpu_device_info {\n  device_memory_size: 1\n}\ndevice_description_str: \"GPU\"\n")
	f.Add("gpu_device_info device_memory_size: 99999999999999999999")
	f.Fuzz(func(t *testing.T, text string) {
		if x, err := parseTarget(text); err == nil && (x.Memory < 0 || x.Config != text) {
			t.Fatalf("%q is %+v", text, x)
		}
	})
}
