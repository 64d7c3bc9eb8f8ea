package safetensors

import (
	"fmt"

	"trireme/internal/kernel"
	"trireme/tensor"
)

// Convertible reports whether Convert supports the conversion: equal types, or any two of F32, BF16
// and F16.
func Convertible(from, to tensor.DType) bool {
	return from == to || isFloat(from) && isFloat(to)
}

func isFloat(d tensor.DType) bool {
	return d == tensor.F32 || d == tensor.BF16 || d == tensor.F16
}

// Convert converts the elements of src from dtype from to dtype to, rounding to nearest even; NaN
// stays NaN. Both slices are little-endian, have the same number of elements and do not overlap. It
// panics if the types are not Convertible.
func Convert(dst []byte, to tensor.DType, src []byte, from tensor.DType) {
	n := len(src) / from.Size()
	switch {
	case len(dst) != n*to.Size() || len(src) != n*from.Size():
		panic(fmt.Sprintf("safetensors: convert %d bytes of %v to %d bytes of %v", len(src), from, len(dst), to))
	case !Convertible(from, to):
		panic(fmt.Sprintf("safetensors: there is no conversion from %v to %v", from, to))
	case from == to:
		copy(dst, src)
	case to == tensor.F32:
		widen(elems[float32](dst, to), src, from)
	case from == tensor.F32:
		narrow(dst, to, elems[float32](src, from))
	default:
		var wide [1 << 10]float32
		for at := 0; at < n; at += len(wide) {
			some := wide[:min(n-at, len(wide))]
			widen(some, src[2*at:2*(at+len(some))], from)
			narrow(dst[2*at:2*(at+len(some))], to, some)
		}
	}
}

// widen converts BF16 or F16.
func widen(dst []float32, src []byte, from tensor.DType) {
	if from == tensor.BF16 {
		kernel.BF16ToF32(dst, elems[uint16](src, from))
	} else {
		kernel.F16ToF32(dst, elems[uint16](src, from))
	}
}

// narrow converts to BF16 or F16.
func narrow(dst []byte, to tensor.DType, src []float32) {
	if to == tensor.BF16 {
		kernel.F32ToBF16(elems[uint16](dst, to), src)
	} else {
		kernel.F32ToF16(elems[uint16](dst, to), src)
	}
}

// elems is b as elements of dtype dt.
func elems[E tensor.Elem](b []byte, dt tensor.DType) []E {
	return tensor.Host[E](tensor.Of(tensor.NewBuffer(b, len(b), tensor.Workspace, nil), dt, 0, len(b)/dt.Size()))
}
