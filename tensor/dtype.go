package tensor

// DType is the type of a tensor's elements.
type DType uint8

// The element types. BF16 and F16 are storage types: arithmetic is in F32, reported sums in F64.
const (
	F32 DType = iota
	BF16
	F16
	F64
	I32
	I64
	U8
)

var dtypes = [...]struct {
	name string
	size int
}{
	F32: {"float32", 4}, BF16: {"bfloat16", 2}, F16: {"float16", 2}, F64: {"float64", 8},
	I32: {"int32", 4}, I64: {"int64", 8}, U8: {"uint8", 1},
}

// Size is the number of bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

// String is the name in configuration files: float32, bfloat16, ...
func (d DType) String() string { return dtypes[d].name }

// ParseDType parses a name from a configuration file or Hugging Face's config.json: float32, fp32,
// f32, bfloat16, bf16, ...
func ParseDType(s string) (DType, bool) {
	switch s {
	case "float32", "fp32", "f32", "F32", "torch.float32", "float", "no":
		return F32, true
	case "bfloat16", "bf16", "BF16", "torch.bfloat16":
		return BF16, true
	case "float16", "fp16", "f16", "F16", "torch.float16", "half":
		return F16, true
	}
	for d, t := range dtypes {
		if t.name == s {
			return DType(d), true
		}
	}
	return 0, false
}
