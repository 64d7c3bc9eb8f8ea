package monitor

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func twoGPUs() *Device {
	return &Device{
		Name: "NVIDIA H200", Count: 2, Utilization: 0.905, MemoryUsed: 5 << 30, MemoryTotal: 140 << 30, Power: 1225, PowerLimit: 1400,
		Temperature: 62, SMClock: 1979, Throttled: []string{"power cap"}, Error: "GPU 1 reported XID 48",
	}
}

func TestDeviceJSON(t *testing.T) {
	r := sample(1)
	r.Device = twoGPUs()
	line := r.AppendJSON(nil)
	const want = `"device":{"name":"NVIDIA H200","count":2,"utilization":0.905,"memory_used":5368709120,"memory_total":150323855360,"power_watts":1225,"power_limit_watts":1400,"temperature_c":62,"sm_clock_mhz":1979,"throttled":["power cap"],"error":"GPU 1 reported XID 48"}`
	if !strings.Contains(string(line), want) {
		t.Errorf("%s lacks %s", line, want)
	}
	back, _, err := Parse(line)
	if err != nil || !reflect.DeepEqual(back.Device, r.Device) {
		t.Errorf("%+v, %v", back.Device, err)
	}
	r.Device = &Device{Count: 1, Utilization: math.NaN(), Power: math.NaN(), PowerLimit: math.NaN(), Temperature: math.NaN(), SMClock: math.NaN()}
	if line := r.AppendJSON(nil); !strings.Contains(string(line), `"device":{"count":1,"throttled":[]}`) || strings.Contains(string(line), "nonfinite") {
		t.Errorf("unknown values: %s", line)
	}
	r.Device = nil
	line = r.AppendJSON(nil)
	if back, _, err := Parse(line); strings.Contains(string(line), `"device"`) || err != nil || back.Device != nil {
		t.Errorf("no GPU: %s, %v", line, err)
	}
}

func TestDeviceValues(t *testing.T) {
	for k, v := range twoGPUs().values() {
		if v == 0 {
			t.Errorf("%s is 0", k)
		}
	}
}
