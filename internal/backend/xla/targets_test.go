package xla

import "testing"

func TestTargets(t *testing.T) {
	for name, memory := range map[string]int64{"h100": 84942979072, "h200": 151397597184} {
		x, err := FindTarget(name)
		if err != nil || x.Memory != memory {
			t.Errorf("%s: %s of %d bytes, %v", name, x.Name, x.Memory, err)
		}
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
