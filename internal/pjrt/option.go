package pjrt

import (
	"fmt"
	"slices"
	"unsafe"
)

// Option is an option of a client or a topology. Value is a string, int64, []int64, float32 or bool.
type Option struct {
	Name  string
	Value any
}

// optionTypes has the types of well-known options. Some plug-ins end the process if an option has
// another type than they expect.
var optionTypes = map[string]int32{
	"cpu_device_count": namedInt64,
	"platform_name":    namedString, "allocator": namedString, "memory_fraction": namedFloat, "preallocate": namedBool,
	"collective_memory_size": namedInt64, "visible_devices": namedInt64List, "node_id": namedInt64, "num_nodes": namedInt64,
	"should_stage_host_to_device_transfers": namedBool, "enable_mock_nccl": namedBool, "mock_gpu_topology": namedString,
	"partition_index": namedInt64, "use_tfrt_gpu_client": namedBool, "abort_collectives_on_failure": namedBool,
	"max_inflight_computations": namedInt64, "topology": namedString, "target_config": namedString,
}

var typeNames = map[int32]string{
	namedString: "string", namedInt64: "int64", namedInt64List: "[]int64", namedFloat: "float32", namedBool: "bool",
}

// namedValues converts options. Their memory is Go's: keep holds what the values point to, and must
// be alive while C reads them.
func namedValues(options []Option) (values []namedValue, keep []any, err error) {
	for _, o := range options {
		name := []byte(o.Name)
		v := namedValue{StructSize: int(unsafe.Sizeof(namedValue{})), Name: pointer(name), NameSize: len(name), ValueSize: 1}
		switch x := o.Value.(type) {
		case string:
			b := []byte(x)
			v.Type, v.Value, v.ValueSize = namedString, uint64(uintptr(pointer(b))), len(b)
			keep = append(keep, b)
		case int64:
			v.Type, v.Value = namedInt64, uint64(x)
		case []int64:
			list := slices.Clone(x)
			v.Type, v.Value, v.ValueSize = namedInt64List, uint64(uintptr(pointer(list))), len(list)
			keep = append(keep, list)
		case float32:
			v.Type = namedFloat
			*(*float32)(unsafe.Pointer(&v.Value)) = x
		case bool:
			v.Type = namedBool
			*(*bool)(unsafe.Pointer(&v.Value)) = x
		default:
			return nil, nil, fmt.Errorf("pjrt: option %s: values of type %T are not supported: string, int64, []int64, float32, bool are", o.Name, o.Value)
		}
		if want, ok := optionTypes[o.Name]; ok && want != v.Type {
			return nil, nil, fmt.Errorf("pjrt: option %s: want a value of type %s, got %T", o.Name, typeNames[want], o.Value)
		}
		values = append(values, v)
	}
	return values, keep, nil
}

// value returns the value that a plug-in gave.
func (v *namedValue) value() any {
	switch v.Type {
	case namedString:
		return text(address(uintptr(v.Value)), v.ValueSize)
	case namedInt64:
		return int64(v.Value)
	case namedInt64List:
		return slices.Clone(sliceAt[int64](address(uintptr(v.Value)), v.ValueSize))
	case namedFloat:
		return *(*float32)(unsafe.Pointer(&v.Value))
	case namedBool:
		return *(*bool)(unsafe.Pointer(&v.Value))
	}
	return nil
}
