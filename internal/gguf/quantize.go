package gguf

import (
	"encoding/binary"
	"math"

	"trireme/checkpoint/safetensors"
	"trireme/tensor"
)

// encode appends values in a type. It reports false if a finite value, or the scale of a block, is beyond float16.
func encode(dst []byte, v []float32, t Type) (out []byte, ok bool) {
	switch t {
	case F32:
		return append(dst, tensor.AsBytes(v)...), true
	case Q8_0:
		return encodeQ8(dst, v)
	}
	to := tensor.BF16
	if t == F16 {
		to = tensor.F16
	}
	at := len(dst)
	dst = append(dst, make([]byte, 2*len(v))...)
	safetensors.Convert(dst[at:], to, tensor.AsBytes(v), tensor.F32)
	for i, x := range v {
		if to == tensor.F16 && !isInf(x) && binary.LittleEndian.Uint16(dst[at+2*i:])&0x7fff == 0x7c00 {
			return dst, false
		}
	}
	return dst, true
}

// decode writes the values of b to dst.
func decode(dst []float32, b []byte, t Type) {
	switch t {
	case F32:
		copy(tensor.AsBytes(dst), b)
	case F16:
		safetensors.Convert(tensor.AsBytes(dst), tensor.F32, b, tensor.F16)
	case BF16:
		safetensors.Convert(tensor.AsBytes(dst), tensor.F32, b, tensor.BF16)
	case Q8_0:
		for i := 0; len(b) >= 34; i, b = i+32, b[34:] {
			scale := fromF16(b)
			for k, q := range b[2:34] {
				dst[i+k] = scale * float32(int8(q))
			}
		}
	}
}

// encodeQ8 quantizes blocks of 32 values: the scale is the largest magnitude by 127, and a value its nearest
// multiple, halves away from 0, as ggml's reference does. Values that are not finite have no quantization.
func encodeQ8(dst []byte, v []float32) ([]byte, bool) {
	for ; len(v) >= 32; v = v[32:] {
		most := float32(0)
		for _, x := range v[:32] {
			if x-x != 0 {
				return dst, false
			}
			most = max(most, float32(math.Abs(float64(x))))
		}
		scale, inverse := most/127, float32(0)
		if scale > 0 {
			inverse = 1 / scale
		}
		at := len(dst)
		dst = append(dst, 0, 0)
		safetensors.Convert(dst[at:], tensor.F16, tensor.AsBytes([]float32{scale}), tensor.F32)
		if isInf(fromF16(dst[at:])) {
			return dst, false
		}
		for _, x := range v[:32] {
			dst = append(dst, byte(int8(math.Round(float64(x*inverse)))))
		}
	}
	return dst, true
}

func fromF16(b []byte) float32 {
	var x [1]float32
	safetensors.Convert(tensor.AsBytes(x[:]), tensor.F32, b[:2], tensor.F16)
	return x[0]
}
