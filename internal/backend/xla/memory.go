package xla

import (
	"fmt"

	"trireme/internal/pjrt"
	"trireme/tensor"
)

// memory has the contents of buffers that outlive programs: on the host, on the device, or both.
type memory struct {
	host    tensor.Backend
	device  *pjrt.Device
	buffers map[*tensor.Buffer]*resident
}

// resident is a buffer's contents. Without any they are zero, or undefined.
type resident struct {
	dt     tensor.DType
	n      int // elements
	cat    tensor.Category
	host   *tensor.Buffer // nil: not on the host
	device *pjrt.Buffer   // nil: not on the device
	zero   bool           // while it is on neither
}

func (m *memory) New(buf *tensor.Buffer, dt tensor.DType) {
	m.buffers[buf] = &resident{dt: dt, n: buf.Size / dt.Size(), cat: buf.Cat}
}

func (m *memory) Free(buf *tensor.Buffer) {
	if r := m.buffers[buf]; r != nil {
		r.leaveHost()
		r.leaveDevice()
		delete(m.buffers, buf)
	}
}

func (r *resident) leaveHost() {
	if r.host != nil {
		r.host.Release()
		r.host = nil
	}
}

func (r *resident) leaveDevice() {
	if r.device != nil {
		r.device.Close()
		r.device = nil
	}
}

// Inner moves a buffer to the host.
func (m *memory) Inner(buf *tensor.Buffer, write bool) *tensor.Buffer {
	r := m.buffers[buf]
	if r == nil {
		return nil
	}
	if r.host == nil {
		t := m.host.New(r.cat, r.dt, r.n)
		if r.device != nil && r.n > 0 {
			if err := r.device.Download(tensor.HostBytes(t)); err != nil {
				t.Release() // a later reader gets the error too
				panic(fmt.Errorf("xla: reading from the device: %w", err))
			}
		} else if r.zero {
			m.host.Fill(t, 0)
		}
		r.host, r.zero = t.Buffer(), false
	}
	if write {
		r.leaveDevice()
	}
	return r.host
}

// onDevice moves a buffer to the device. Its host memory is free afterwards.
func (m *memory) onDevice(buf *tensor.Buffer) (*pjrt.Buffer, error) {
	r := m.buffers[buf]
	if r.device != nil {
		return r.device, nil
	}
	var bytes []byte
	if r.host != nil {
		bytes = tensor.HostBytes(tensor.Of(r.host, r.dt, 0, r.n))
	} else {
		bytes = make([]byte, r.n*r.dt.Size()) // also if the contents are undefined
	}
	d, err := m.device.Upload(pjrtTypes[r.dt], []int{r.n}, bytes)
	if err != nil {
		return nil, err
	}
	r.device, r.zero = d, false
	r.leaveHost()
	return d, nil
}

// clear fills a part of a buffer with 0 and returns true, if the buffer has no contents.
func (m *memory) clear(buf *tensor.Buffer) bool {
	r := m.buffers[buf]
	if r == nil || r.host != nil || r.device != nil {
		return false
	}
	r.zero = true
	return true
}

// replace sets a buffer's contents to those of a program's output; nil is undefined.
func (m *memory) replace(buf *tensor.Buffer, d *pjrt.Buffer) {
	r := m.buffers[buf]
	r.leaveHost()
	r.leaveDevice()
	r.device, r.zero = d, false
}

var pjrtTypes = [...]pjrt.Type{
	tensor.F32: pjrt.F32, tensor.BF16: pjrt.BF16, tensor.F16: pjrt.F16, tensor.F64: pjrt.F64,
	tensor.I32: pjrt.S32, tensor.I64: pjrt.S64, tensor.U8: pjrt.U8,
}
