package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Card is a GPU.
type Card struct {
	Index        int // in the order of PCI bus IDs
	Name         string
	UUID         string // GPU-...
	BusID        string
	Memory       int64 // bytes
	Major, Minor int   // compute capability; 9.0 is Hopper

	handle handle
}

// Cards lists all GPUs of the machine. The error is of those that cannot be read, such as lost ones; the
// list then has the others.
func (l *Library) Cards() (cards []Card, err error) {
	var n uint32
	if err := check("nvmlDeviceGetCount_v2", l.count(&n)); err != nil {
		return nil, err
	}
	for i := range int(n) {
		var c Card
		if e := l.card(i, &c); e != nil {
			err = errors.Join(err, fmt.Errorf("GPU %d: %w", i, e))
			continue
		}
		cards = append(cards, c)
	}
	return cards, err
}

func (l *Library) card(index int, c *Card) (err error) {
	c.Index = index
	if err := check("nvmlDeviceGetHandleByIndex_v2", l.byIndex(uint32(index), &c.handle)); err != nil {
		return err
	}
	if c.Name, err = text("nvmlDeviceGetName", 96, func(p *byte, n uint32) int32 { return l.name(c.handle, p, n) }); err != nil {
		return err
	}
	if c.UUID, err = text("nvmlDeviceGetUUID", 96, func(p *byte, n uint32) int32 { return l.uuid(c.handle, p, n) }); err != nil {
		return err
	}
	var pci pciInfo
	if err := check("nvmlDeviceGetPciInfo_v3", l.pci(c.handle, &pci)); err != nil {
		return err
	}
	c.BusID = cString(pci.busID[:])
	var major, minor int32
	if err := check("nvmlDeviceGetCudaComputeCapability", l.capability(c.handle, &major, &minor)); err != nil {
		return err
	}
	c.Major, c.Minor = int(major), int(minor)
	var m memoryInfo
	if err := check("nvmlDeviceGetMemoryInfo", l.memory(c.handle, &m)); err != nil {
		return err
	}
	c.Memory = int64(m.total)
	return nil
}

func cString(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// Reading is the state of a GPU at one time. A value that the GPU does not report is NaN, or 0 for bytes.
type Reading struct {
	Utilization             float64 // fraction of the last second or less in which a kernel ran, 0 to 1
	MemoryUsed, MemoryTotal int64   // bytes, of all programs
	Power, PowerLimit       float64 // watts
	Temperature             float64 // degrees Celsius
	SMClock, MemoryClock    float64 // MHz
	// Throttled has the reasons for a clock below the maximum, without those of an idle GPU.
	Throttled []string
}

// Clocks and reasons of nvml.h.
const (
	sensorGPU   = 0
	clockSM     = 1
	clockMemory = 2
)

var reasons = []struct {
	bit  uint64
	name string
}{
	{0x2, "clock setting"}, {0x4, "power cap"}, {0x8, "hardware slowdown"}, {0x10, "sync boost"}, {0x20, "thermal"},
	{0x40, "hardware thermal"}, {0x80, "power brake"}, {0x100, "display clocks"},
}

// Read returns a GPU's state. The error of a lost GPU is ErrLost.
func (l *Library) Read(c Card) (Reading, error) {
	r := Reading{Utilization: math.NaN(), Power: math.NaN(), PowerLimit: math.NaN(), Temperature: math.NaN(), SMClock: math.NaN(), MemoryClock: math.NaN()}
	var (
		use                                   utilizationInfo
		m                                     memoryInfo
		power, limit, temperature, sm, memory uint32
		throttle                              uint64
	)
	for _, q := range []struct {
		name string
		code int32
		set  func()
	}{
		{"nvmlDeviceGetMemoryInfo", l.memory(c.handle, &m), func() { r.MemoryUsed, r.MemoryTotal = int64(m.used), int64(m.total) }},
		{"nvmlDeviceGetUtilizationRates", l.utilization(c.handle, &use), func() { r.Utilization = float64(use.gpu) / 100 }},
		{"nvmlDeviceGetPowerUsage", l.power(c.handle, &power), func() { r.Power = float64(power) / 1000 }},
		{"nvmlDeviceGetEnforcedPowerLimit", l.powerLimit(c.handle, &limit), func() { r.PowerLimit = float64(limit) / 1000 }},
		{"nvmlDeviceGetTemperature", l.temperature(c.handle, sensorGPU, &temperature), func() { r.Temperature = float64(temperature) }},
		{"nvmlDeviceGetClockInfo", l.clock(c.handle, clockSM, &sm), func() { r.SMClock = float64(sm) }},
		{"nvmlDeviceGetClockInfo", l.clock(c.handle, clockMemory, &memory), func() { r.MemoryClock = float64(memory) }},
		{"nvmlDeviceGetCurrentClocksThrottleReasons", l.throttle(c.handle, &throttle), func() { r.Throttled = throttled(throttle) }},
	} {
		switch err := check(q.name, q.code); {
		case err == nil:
			q.set()
		case !errors.Is(err, codeNotSupported):
			return Reading{}, fmt.Errorf("GPU %d (%s, %s): %w", c.Index, c.Name, c.BusID, err)
		}
	}
	return r, nil
}

func throttled(bits uint64) (names []string) {
	for _, r := range reasons {
		if bits&r.bit != 0 {
			names = append(names, r.name)
		}
	}
	return names
}

// Visible returns the cards that a program with this value of CUDA_VISIBLE_DEVICES sees, in its order:
// indices and UUIDs or their beginnings, separated by commas, up to the first that is no card. set is
// false if the variable is not set: all cards.
func Visible(cards []Card, value string, set bool) []Card {
	if !set {
		return cards
	}
	var out []Card
	for _, name := range strings.Split(value, ",") {
		i := find(cards, strings.TrimSpace(name))
		if i < 0 {
			break
		}
		out = append(out, cards[i])
	}
	return out
}

// find returns the index of a card by its index or the beginning of its UUID, -1 if there is none or
// several.
func find(cards []Card, name string) int {
	if n, err := strconv.Atoi(name); err == nil {
		if n < 0 || n >= len(cards) {
			return -1
		}
		return n
	}
	found := -1
	for i, c := range cards {
		if name != "" && strings.HasPrefix(strings.ToLower(c.UUID), strings.ToLower(name)) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}
