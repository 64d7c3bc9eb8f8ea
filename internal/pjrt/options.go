package pjrt

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// CompileOptions are the options of a compilation.
type CompileOptions struct {
	// Replicas is the number of devices that run the program together; 0 is 1.
	Replicas int
	// Devices has the ID of each replica's device; nil lets the plug-in choose: IDs from 0.
	Devices []int
	// Flags override the compiler's flags (XLA_FLAGS without "--").
	Flags []Flag
	// Optional are flags that not every version of the compiler has: unknown ones are left out, see
	// Executable.Dropped.
	Optional []Flag
	// Params declares the arguments of main. Execute checks arguments against it; nil checks nothing,
	// and a buffer with another type or shape than main's gives wrong results.
	Params []Param
}

// Flag is a flag of the compiler. Value is a string, bool, int64 or float64.
type Flag struct {
	Name  string
	Value any
}

// maxReplicas bounds Replicas; a plug-in makes tables of this size before it checks anything.
const maxReplicas = 1 << 20

// replicas returns the number of replicas.
func (o CompileOptions) replicas() int { return max(o.Replicas, 1) }

// Fields of CompileOptionsProto and of the messages in it (openxla/xla, xla/pjrt/proto/compile_options.proto,
// xla/xla_data.proto).
const (
	optionsBuild     protowire.Number = 3 // executable_build_options
	optionsOverrides protowire.Number = 7 // env_option_overrides, a map

	buildOrdinal    protowire.Number = 1 // device_ordinal
	buildReplicas   protowire.Number = 4 // num_replicas
	buildPartitions protowire.Number = 5 // num_partitions
	buildAssignment protowire.Number = 9 // device_assignment

	assignmentReplicas     protowire.Number = 1 // replica_count
	assignmentComputations protowire.Number = 2 // computation_count
	assignmentDevices      protowire.Number = 3 // computation_devices
	computationReplicas    protowire.Number = 1 // replica_device_ids

	entryKey   protowire.Number = 1
	entryValue protowire.Number = 2

	overrideString protowire.Number = 1
	overrideBool   protowire.Number = 2
	overrideInt    protowire.Number = 3
	overrideDouble protowire.Number = 4
)

// encode returns a CompileOptionsProto with the flags and the given optional ones. It refuses what
// plug-ins do not check.
func (o CompileOptions) encode(optional []Flag) ([]byte, error) {
	if o.Replicas < 0 || o.Replicas > maxReplicas {
		return nil, fmt.Errorf("pjrt: compile: %d replicas: not in 1..%d", o.Replicas, maxReplicas)
	}
	var build []byte
	build = number(build, buildOrdinal, math.MaxUint64) // -1: no default device
	build = number(build, buildReplicas, uint64(o.replicas()))
	build = number(build, buildPartitions, 1)
	if o.Devices != nil {
		assignment, err := o.assignment()
		if err != nil {
			return nil, err
		}
		build = message(build, buildAssignment, assignment)
	}
	out := message(nil, optionsBuild, build)
	for _, f := range slices.Concat(o.Flags, optional) {
		value, err := f.encode()
		if err != nil {
			return nil, err
		}
		entry := message(nil, entryKey, []byte(f.Name))
		out = message(out, optionsOverrides, message(entry, entryValue, value))
	}
	return out, nil
}

// assignment returns a DeviceAssignmentProto.
func (o CompileOptions) assignment() ([]byte, error) {
	if len(o.Devices) != o.replicas() {
		return nil, fmt.Errorf("pjrt: compile: %d devices for %d replicas", len(o.Devices), o.replicas())
	}
	var ids []byte
	seen := map[int]int{}
	for i, d := range o.Devices {
		if d < 0 || d > math.MaxInt32 {
			return nil, fmt.Errorf("pjrt: compile: replica %d: no device has the ID %d", i, d)
		}
		if before, ok := seen[d]; ok {
			return nil, fmt.Errorf("pjrt: compile: replicas %d and %d have device %d", before, i, d)
		}
		seen[d] = i
		ids = number(ids, computationReplicas, uint64(d))
	}
	a := number(nil, assignmentReplicas, uint64(len(o.Devices)))
	a = number(a, assignmentComputations, 1)
	return message(a, assignmentDevices, ids), nil
}

// encode returns an OptionOverrideProto.
func (f Flag) encode() ([]byte, error) {
	if !utf8.ValidString(f.Name) {
		return nil, fmt.Errorf("pjrt: flag %q: not UTF-8", f.Name)
	}
	switch v := f.Value.(type) {
	case string:
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("pjrt: flag %s: %q is not UTF-8", f.Name, v)
		}
		return message(nil, overrideString, []byte(v)), nil
	case bool:
		return number(nil, overrideBool, protowire.EncodeBool(v)), nil
	case int64:
		return number(nil, overrideInt, uint64(v)), nil
	case float64:
		return protowire.AppendFixed64(protowire.AppendTag(nil, overrideDouble, protowire.Fixed64Type), math.Float64bits(v)), nil
	}
	return nil, fmt.Errorf("pjrt: flag %s: values of type %T are not supported: string, bool, int64, float64 are", f.Name, f.Value)
}

// number appends a field with a number, message one with bytes.
func number(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func message(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}
