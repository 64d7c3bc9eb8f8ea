package tensor

import (
	"fmt"
	"unsafe"
)

// Elem lists the Go types of elements. BF16 and F16 are uint16 bits.
type Elem interface {
	float32 | float64 | int32 | int64 | uint16 | uint8
}

// Host returns the tensor's memory as a Go slice, from its first element to its last, row gaps
// included. It panics if the memory is not host memory, or E has another size than the element
// type.
func Host[E Elem](t *Tensor) []E {
	var e E
	if t.buf.Bytes == nil {
		panic(fmt.Sprintf("tensor: %v is not in host memory", t))
	}
	if int(unsafe.Sizeof(e)) != t.dtype.Size() {
		panic(fmt.Sprintf("tensor: %v has no elements of %T", t, e))
	}
	n := t.span()
	if n == 0 {
		return nil
	}
	b := t.buf.Bytes[t.off*t.dtype.Size():][:n*t.dtype.Size()]
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// HostBytes returns the memory of a contiguous tensor.
func HostBytes(t *Tensor) []byte {
	if !t.Contiguous() {
		panic(fmt.Sprintf("tensor: %v is not contiguous", t))
	}
	if t.buf.Bytes == nil {
		panic(fmt.Sprintf("tensor: %v is not in host memory", t))
	}
	return t.buf.Bytes[t.off*t.dtype.Size():][:t.Bytes()]
}

// AsBytes returns the memory of a slice.
func AsBytes[E Elem](s []E) []byte {
	var e E
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(e)))
}

// span is the number of elements from the first to the last, row gaps included.
func (t *Tensor) span() int {
	r := t.Rows()
	if r == 0 || t.Width() == 0 {
		return 0
	}
	if len(t.shape) <= 1 {
		return t.Width()
	}
	return (r-1)*t.ld + t.Width()
}
