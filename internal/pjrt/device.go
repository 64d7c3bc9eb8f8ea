package pjrt

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// inFlight is the number of executions that a device may have started and not finished. Plug-ins stop
// making progress with too many (the CPU's between 34 and 50); two are enough to keep a device busy.
const inFlight = 8

// Device is a device of this process.
type Device struct {
	client *Client
	ptr    uintptr
	id     int
	kind   string

	mu      sync.Mutex // over started
	started []*Event   // executions, the oldest first
}

// MemoryStats is a device's memory in bytes; a field that the plug-in does not report is 0.
type MemoryStats struct {
	InUse, Peak, Limit, LargestFree, Reserved, Pool, PeakPool int64
}

func newDevice(c *Client, ptr uintptr) (*Device, error) {
	describe := deviceGetDescriptionArgs{Device: ptr}
	if err := call(c.plugin, fnDeviceGetDescription, &describe); err != nil {
		return nil, err
	}
	id := deviceDescriptionIdArgs{DeviceDescription: describe.DeviceDescription}
	if err := call(c.plugin, fnDeviceDescriptionId, &id); err != nil {
		return nil, err
	}
	kind := deviceDescriptionKindArgs{DeviceDescription: describe.DeviceDescription}
	if err := call(c.plugin, fnDeviceDescriptionKind, &kind); err != nil {
		return nil, err
	}
	return &Device{client: c, ptr: ptr, id: int(id.Id), kind: text(kind.DeviceKind, kind.DeviceKindSize)}, nil
}

// ID returns the device's number in the job.
func (d *Device) ID() int { return d.id }

// Kind returns the device's model, as "NVIDIA H200".
func (d *Device) Kind() string { return d.kind }

// Client returns the device's client.
func (d *Device) Client() *Client { return d.client }

// Memory returns the device's memory. Plug-ins without it (the CPU's) return an *Error with
// CodeUnimplemented.
func (d *Device) Memory() (MemoryStats, error) {
	if _, err := d.client.h.acquire(); err != nil {
		return MemoryStats{}, fmt.Errorf("pjrt: client: %w", err)
	}
	defer d.client.h.release()
	a := deviceMemoryStatsArgs{Device: d.ptr}
	if err := call(d.client.plugin, fnDeviceMemoryStats, &a); err != nil {
		return MemoryStats{}, err
	}
	return MemoryStats{
		InUse: a.BytesInUse, Peak: a.PeakBytesInUse, Limit: a.BytesLimit, LargestFree: a.LargestFreeBlockBytes,
		Reserved: a.BytesReserved, Pool: a.PoolBytes, PeakPool: a.PeakPoolBytes,
	}, nil
}

// Upload copies a dense row-major array to the device. It returns when data may change again.
func (d *Device) Upload(t Type, dims []int, data []byte) (*Buffer, error) {
	shape := Param{t, slices.Clone(dims)}
	size, err := shape.size()
	if err != nil {
		return nil, err
	}
	if size != len(data) {
		return nil, fmt.Errorf("pjrt: upload: %s has %d bytes, got %d", shape, size, len(data))
	}
	c := d.client
	client, err := c.h.acquire()
	if err != nil {
		return nil, fmt.Errorf("pjrt: client: %w", err)
	}
	defer c.h.release()
	defer runtime.KeepAlive(data)
	if size == 0 {
		data = make([]byte, 1) // an address, though nothing is read
	}
	sizes := dims64(dims)
	a := clientBufferFromHostBufferArgs{
		Client: client, Data: pointer(data), Type: int32(t), Dims: pointer(sizes), NumDims: len(sizes),
		HostBufferSemantics: immutableUntilTransferCompletes, Device: d.ptr,
	}
	if err := call(c.plugin, fnClientBufferFromHostBuffer, &a); err != nil {
		return nil, err
	}
	b := c.buffer(a.Buffer, &shape)
	done := c.event(a.DoneWithHostBuffer, nil)
	defer done.Close()
	if err := done.Await(); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// start waits until the device may start another execution.
func (d *Device) start() {
	d.mu.Lock()
	var oldest *Event
	if len(d.started) >= inFlight {
		oldest = d.started[0]
		d.started = slices.Delete(d.started, 0, 1)
	}
	d.mu.Unlock()
	if oldest != nil {
		_ = oldest.await() // its own user gets the error
		oldest.h.release()
	}
}

// record adds an execution that has started.
func (d *Device) record(e *Event) {
	e.h.retain()
	d.mu.Lock()
	d.started = append(d.started, e)
	d.mu.Unlock()
}

// forget drops the executions.
func (d *Device) forget() {
	d.mu.Lock()
	started := d.started
	d.started = nil
	d.mu.Unlock()
	for _, e := range started {
		e.h.release()
	}
}
