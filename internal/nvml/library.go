package nvml

import (
	"errors"
	"fmt"
	"sync"

	"trireme/internal/dl"
)

// File is the library's name, which the driver installs.
const File = "libnvidia-ml.so.1"

// ErrNoDriver is the error of Open on a machine without an NVIDIA driver.
var ErrNoDriver = errors.New("no NVIDIA driver")

// handle is a GPU of the library.
type handle uintptr

// Library is the loaded library. Several goroutines may use it.
type Library struct {
	close  sync.Once
	closed func() int32

	driverVersion func(text *byte, size uint32) int32
	cudaVersion   func(*int32) int32
	count         func(*uint32) int32
	byIndex       func(uint32, *handle) int32
	name          func(handle, *byte, uint32) int32
	uuid          func(handle, *byte, uint32) int32
	pci           func(handle, *pciInfo) int32
	capability    func(handle, *int32, *int32) int32
	memory        func(handle, *memoryInfo) int32
	utilization   func(handle, *utilizationInfo) int32
	power         func(handle, *uint32) int32
	powerLimit    func(handle, *uint32) int32
	temperature   func(handle, int32, *uint32) int32
	clock         func(handle, int32, *uint32) int32
	throttle      func(handle, *uint64) int32

	// Nil in libraries without events.
	newEvents   func(*uintptr) int32
	registerXID func(handle, uint64, uintptr) int32
	waitEvents  func(uintptr, *eventData, uint32) int32
	freeEvents  func(uintptr) int32
}

// The library's structures (nvml.h of CUDA 12 and 13).
type (
	pciInfo struct {
		_     [16]byte  // busIdLegacy
		_     [5]uint32 // domain, bus, device, pciDeviceId, pciSubSystemId
		busID [32]byte
	}
	memoryInfo struct {
		total uint64
		_     uint64 // free
		used  uint64
	}
	utilizationInfo struct {
		gpu uint32
		_   uint32 // memory
	}
	eventData struct {
		device handle
		_      uint64 // eventType
		data   uint64
		_      [2]uint32 // gpuInstanceId, computeInstanceId
	}
)

// Open loads the library from file, or by its name if file is empty. The error is ErrNoDriver if there is
// none, or if the driver is not running.
func Open(file string) (*Library, error) {
	if file == "" {
		file = File
	}
	h, err := dl.Open(file, false)
	if errors.Is(err, dl.ErrStatic) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s cannot be loaded", ErrNoDriver, file)
	}
	l := &Library{}
	var start func() int32
	for _, f := range []struct {
		name     string
		to       any
		optional bool
	}{
		{"nvmlInit_v2", &start, false},
		{"nvmlShutdown", &l.closed, false},
		{"nvmlSystemGetDriverVersion", &l.driverVersion, false},
		{"nvmlSystemGetCudaDriverVersion_v2", &l.cudaVersion, false},
		{"nvmlDeviceGetCount_v2", &l.count, false},
		{"nvmlDeviceGetHandleByIndex_v2", &l.byIndex, false},
		{"nvmlDeviceGetName", &l.name, false},
		{"nvmlDeviceGetUUID", &l.uuid, false},
		{"nvmlDeviceGetPciInfo_v3", &l.pci, false},
		{"nvmlDeviceGetCudaComputeCapability", &l.capability, false},
		{"nvmlDeviceGetMemoryInfo", &l.memory, false},
		{"nvmlDeviceGetUtilizationRates", &l.utilization, false},
		{"nvmlDeviceGetPowerUsage", &l.power, false},
		{"nvmlDeviceGetEnforcedPowerLimit", &l.powerLimit, false},
		{"nvmlDeviceGetTemperature", &l.temperature, false},
		{"nvmlDeviceGetClockInfo", &l.clock, false},
		{"nvmlDeviceGetCurrentClocksThrottleReasons", &l.throttle, false},
		{"nvmlEventSetCreate", &l.newEvents, true},
		{"nvmlDeviceRegisterEvents", &l.registerXID, true},
		{"nvmlEventSetWait_v2", &l.waitEvents, true},
		{"nvmlEventSetFree", &l.freeEvents, true},
	} {
		symbol, err := dl.Symbol(h, f.name)
		switch {
		case err == nil:
			dl.Bind(f.to, symbol)
		case !f.optional:
			return nil, fmt.Errorf("nvml: %s has no function %s. try: a current NVIDIA driver", file, f.name)
		}
	}
	switch err := check("nvmlInit_v2", start()); {
	case errors.Is(err, codeNoDriver), errors.Is(err, codeNoLibrary):
		return nil, fmt.Errorf("%w: %w", ErrNoDriver, err)
	case err != nil:
		return nil, err
	}
	return l, nil
}

// Close ends the use of the library.
func (l *Library) Close() (err error) {
	l.close.Do(func() { err = check("nvmlShutdown", l.closed()) })
	return err
}

// Version is a version of CUDA.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Driver returns the version of the driver, as 580.65.06, and the newest CUDA that it runs.
func (l *Library) Driver() (version string, cuda Version, err error) {
	if version, err = text("nvmlSystemGetDriverVersion", 80, func(p *byte, n uint32) int32 { return l.driverVersion(p, n) }); err != nil {
		return "", Version{}, err
	}
	var n int32
	if err := check("nvmlSystemGetCudaDriverVersion_v2", l.cudaVersion(&n)); err != nil {
		return "", Version{}, err
	}
	return version, Version{int(n) / 1000, int(n) % 1000 / 10}, nil
}

// text calls a function that writes a C string of up to size bytes.
func text(name string, size int, f func(*byte, uint32) int32) (string, error) {
	b := make([]byte, size)
	if err := check(name, f(&b[0], uint32(size))); err != nil {
		return "", err
	}
	return cString(b), nil
}
