package monitor

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// ReadResident reads /proc/self/status: VmRSS, VmHWM and RssShmem.
func ReadResident() (Resident, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return Resident{}, fmt.Errorf("monitor: %w", err)
	}
	return parseStatus(b)
}

func parseStatus(b []byte) (Resident, error) {
	var r Resident
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		var to *int64
		switch string(name) {
		case "VmRSS":
			to = &r.Now
		case "VmHWM":
			to = &r.Peak
		case "RssShmem":
			to = &r.Shared
		default:
			continue
		}
		kib, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(value), []byte(" kB"))), 10, 53)
		if err != nil {
			return Resident{}, fmt.Errorf("monitor: /proc/self/status: %w", err)
		}
		*to = kib << 10
	}
	if r.Now == 0 {
		return Resident{}, fmt.Errorf("monitor: /proc/self/status has no VmRSS")
	}
	r.Peak = max(r.Peak, r.Now) // the kernel does not update them together
	return r, nil
}
