package pjrt

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// Buffer is an array on a device.
type Buffer struct {
	client *Client
	h      handle

	once  sync.Once // over shape and err
	shape *Param
	err   error
}

// buffer makes a Buffer; shape nil is read from the plug-in when it is needed.
func (c *Client) buffer(ptr uintptr, shape *Param) *Buffer {
	b := &Buffer{client: c, shape: shape}
	b.h = c.child(ptr, func(ptr uintptr) {
		_ = call(c.plugin, fnBufferDestroy, &bufferDestroyArgs{Buffer: ptr})
	})
	return b
}

// acquire returns the buffer's pointer; the caller releases the handle.
func (b *Buffer) acquire() (uintptr, error) {
	ptr, err := b.h.acquire()
	if err != nil {
		return 0, fmt.Errorf("pjrt: buffer: %w", err)
	}
	return ptr, nil
}

// param returns the type and the dimensions.
func (b *Buffer) param() (Param, error) {
	b.once.Do(func() {
		if b.shape != nil {
			return
		}
		var ptr uintptr
		if ptr, b.err = b.acquire(); b.err != nil {
			return
		}
		defer b.h.release()
		t := bufferElementTypeArgs{Buffer: ptr}
		dims := bufferDimensionsArgs{Buffer: ptr}
		if b.err = call(b.client.plugin, fnBufferElementType, &t); b.err != nil {
			return
		}
		if b.err = call(b.client.plugin, fnBufferDimensions, &dims); b.err != nil {
			return
		}
		b.shape = &Param{Type: Type(t.Type)}
		for _, d := range sliceAt[int64](dims.Dims, dims.NumDims) {
			b.shape.Dims = append(b.shape.Dims, int(d))
		}
	})
	if b.err != nil {
		return Param{}, b.err
	}
	return *b.shape, nil
}

// Type returns the type of the elements, Invalid for a buffer that the plug-in cannot describe.
func (b *Buffer) Type() Type {
	p, _ := b.param()
	return p.Type
}

// Dims returns the dimensions.
func (b *Buffer) Dims() []int {
	p, _ := b.param()
	return slices.Clone(p.Dims)
}

// Size returns the bytes of the dense array.
func (b *Buffer) Size() int {
	p, _ := b.param()
	n, _ := p.size()
	return n
}

// Deleted reports whether the array is gone: the buffer is closed, or an execution has reused it.
func (b *Buffer) Deleted() bool {
	ptr, err := b.acquire()
	if err != nil {
		return true
	}
	defer b.h.release()
	a := bufferIsDeletedArgs{Buffer: ptr}
	return call(b.client.plugin, fnBufferIsDeleted, &a) != nil || a.IsDeleted
}

// Download waits until the array is computed and copies it to dst, dense and row-major.
func (b *Buffer) Download(dst []byte) error {
	e, err := b.DownloadAsync(dst)
	if err != nil {
		return err
	}
	defer e.Close()
	return e.Await()
}

// DownloadAsync starts a copy to dst, which must not be used before the event is ready.
func (b *Buffer) DownloadAsync(dst []byte) (*Event, error) {
	shape, err := b.param()
	if err != nil {
		return nil, err
	}
	size, err := shape.size()
	if err != nil {
		return nil, err
	}
	if size != len(dst) {
		return nil, fmt.Errorf("pjrt: download: %s has %d bytes, the destination %d", shape, size, len(dst))
	}
	ptr, err := b.acquire()
	if err != nil {
		return nil, err
	}
	defer b.h.release()
	if size == 0 {
		dst = make([]byte, 1) // nil would ask for the size
	}
	a := bufferToHostBufferArgs{Src: ptr, HostLayout: rowMajor(len(shape.Dims)), Dst: pointer(dst), DstSize: size}
	if err := call(b.client.plugin, fnBufferToHostBuffer, &a); err != nil {
		return nil, err
	}
	return b.client.event(a.Event, dst), nil
}

// rowMajor returns the PJRT_Buffer_MemoryLayout of a dense array whose last dimension is contiguous.
// Without it a plug-in copies the layout of the device, which may be another one on TPUs. XLA's CPU
// plug-in ignores it; its arrays are row-major.
func rowMajor(dims int) unsafe.Pointer {
	order := make([]int64, dims)
	for i := range order {
		order[i] = int64(dims - 1 - i)
	}
	l := &bufferMemoryLayout{Type: layoutTiled}
	l.StructSize = int(unsafe.Sizeof(*l))
	l.Tiled.StructSize = int(unsafe.Sizeof(l.Tiled))
	l.Tiled.MinorToMajor, l.Tiled.MinorToMajorSize = pointer(order), dims
	return unsafe.Pointer(l)
}

// Close releases the array. An execution in progress that uses it completes.
func (b *Buffer) Close() { b.h.close() }
