package monitor

import (
	"encoding/json"
	"math"
)

// Device is the state of the GPUs that a machine's ranks use, at one time. A value that they do not report is
// NaN, or 0 for bytes.
type Device struct {
	Name  string // of the first GPU
	Count int
	// Utilization is the fraction of time in which a GPU ran a kernel, 0 to 1, the mean over the GPUs.
	Utilization float64
	// MemoryUsed and MemoryTotal are bytes of the GPU with the most in use, by all programs. A run that
	// preallocates uses its share from the start.
	MemoryUsed, MemoryTotal int64
	Power, PowerLimit       float64 // watts, the sum over the GPUs
	Temperature             float64 // degrees Celsius, of the hottest GPU
	SMClock                 float64 // MHz, of the slowest GPU
	// Throttled has the reasons for which any of the GPUs runs below its clock: power cap, thermal.
	Throttled []string
	// Error is an error that the driver reported since the record before: a lost GPU, an XID. Empty is
	// none.
	Error string
}

// deviceJSON is a Device in a record.
type deviceJSON struct {
	Name        string   `json:"name,omitempty"`
	Count       int      `json:"count"`
	Utilization *float64 `json:"utilization,omitempty"`
	MemoryUsed  int64    `json:"memory_used,omitempty"`
	MemoryTotal int64    `json:"memory_total,omitempty"`
	Power       *float64 `json:"power_watts,omitempty"`
	PowerLimit  *float64 `json:"power_limit_watts,omitempty"`
	Temperature *float64 `json:"temperature_c,omitempty"`
	SMClock     *float64 `json:"sm_clock_mhz,omitempty"`
	Throttled   []string `json:"throttled"`
	Error       string   `json:"error,omitempty"`
}

func (d *Device) json() string {
	known := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	b, err := json.Marshal(deviceJSON{
		d.Name, d.Count, known(d.Utilization), d.MemoryUsed, d.MemoryTotal, known(d.Power), known(d.PowerLimit), known(d.Temperature), known(d.SMClock),
		append([]string{}, d.Throttled...), d.Error,
	})
	if err != nil {
		panic(err) // no value of the type fails
	}
	return string(b)
}

func (j *deviceJSON) device() *Device {
	if j == nil {
		return nil
	}
	number := func(p *float64) float64 {
		if p == nil {
			return math.NaN()
		}
		return *p
	}
	return &Device{
		Name: j.Name, Count: j.Count, Utilization: number(j.Utilization), MemoryUsed: j.MemoryUsed, MemoryTotal: j.MemoryTotal,
		Power: number(j.Power), PowerLimit: number(j.PowerLimit), Temperature: number(j.Temperature), SMClock: number(j.SMClock),
		Throttled: j.Throttled, Error: j.Error,
	}
}

// values lists the numbers that d reports, by the names of a record.
func (d *Device) values() map[string]float64 {
	m := map[string]float64{}
	for name, v := range map[string]float64{
		"utilization": d.Utilization, "memory_used": float64(d.MemoryUsed), "power_watts": d.Power, "temperature_c": d.Temperature, "sm_clock_mhz": d.SMClock,
	} {
		if !math.IsNaN(v) {
			m[name] = v
		}
	}
	return m
}
