package hlo

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of messages in openxla/xla (xla/service/hlo.proto, xla/xla_data.proto).
const (
	configuredModule = 1 // HloModuleProtoWithConfig.hlo_module

	moduleComputations = 3
	moduleEntry        = 6
	moduleSchedule     = 7
	scheduleSequences  = 1
	sequenceIDs        = 1

	computationInstructions = 2
	computationID           = 5

	instructionName     = 1
	instructionOpcode   = 2
	instructionShape    = 3
	instructionTarget   = 28
	instructionID       = 35
	instructionOperands = 36
	instructionCalled   = 38
	instructionConfig   = 43

	shapeType       = 2
	shapeDimensions = 3
	shapeTuple      = 4

	entryKey   = 1
	entryValue = 2
)

// elementBytes has the size of an element, by PrimitiveType.
var elementBytes = map[uint64]int64{1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 15: 8, 16: 2, 18: 16, 19: 1, 20: 1}

// instruction is an instruction of a computation.
type instruction struct {
	name, opcode, target string
	config               string // backend_config
	id                   int64
	operands, called     []int64
	bytes                int64 // of the result; of a tuple, its largest element
}

// module is a scheduled program. Computations have their instructions in the order of the schedule.
type module struct {
	computations map[int64][]*instruction
	entry        int64
}

var errMessage = errors.New("hlo: not a serialized module")

// each calls f with the fields of a message. v is a number or, of bytes, 0.
func each(b []byte, f func(field protowire.Number, v uint64, bytes []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMessage
		}
		b = b[n:]
		var v uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return errMessage
		}
		b = b[n:]
		if err := f(field, v, bytes); err != nil {
			return err
		}
	}
	return nil
}

// numbers appends a repeated number, packed or not.
func numbers(list []int64, v uint64, packed []byte) ([]int64, error) {
	if packed == nil {
		return append(list, int64(v)), nil
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return nil, errMessage
		}
		list, packed = append(list, int64(v)), packed[n:]
	}
	return list, nil
}

// parse reads a module.
func parse(text string) (*module, error) {
	m := &module{computations: map[int64][]*instruction{}}
	sequences := map[int64][]int64{}
	err := each([]byte(text), func(field protowire.Number, _ uint64, b []byte) error {
		if field != configuredModule {
			return nil
		}
		return each(b, func(field protowire.Number, v uint64, b []byte) error {
			switch field {
			case moduleComputations:
				return m.addComputation(b)
			case moduleEntry:
				m.entry = int64(v)
			case moduleSchedule:
				return addSchedule(sequences, b)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if m.computations[m.entry] == nil || sequences[m.entry] == nil {
		return nil, fmt.Errorf("%w: it has no schedule", errMessage)
	}
	for c, ids := range sequences {
		by := map[int64]*instruction{}
		for _, i := range m.computations[c] {
			by[i.id] = i
		}
		var list []*instruction
		for _, id := range ids {
			i := by[id]
			if i == nil {
				return nil, fmt.Errorf("%w: the schedule has unknown instructions", errMessage)
			}
			list = append(list, i)
		}
		m.computations[c] = list
	}
	return m, nil
}

func addSchedule(sequences map[int64][]int64, b []byte) error {
	return each(b, func(field protowire.Number, _ uint64, b []byte) error {
		if field != scheduleSequences {
			return nil
		}
		var key int64
		var ids []int64
		err := each(b, func(field protowire.Number, v uint64, b []byte) error {
			switch field {
			case entryKey:
				key = int64(v)
			case entryValue:
				return each(b, func(field protowire.Number, v uint64, b []byte) (err error) {
					if field == sequenceIDs {
						ids, err = numbers(ids, v, b)
					}
					return err
				})
			}
			return nil
		})
		sequences[key] = ids
		return err
	})
}

func (m *module) addComputation(b []byte) error {
	var id int64
	var list []*instruction
	err := each(b, func(field protowire.Number, v uint64, b []byte) error {
		switch field {
		case computationID:
			id = int64(v)
		case computationInstructions:
			i, err := parseInstruction(b)
			list = append(list, i)
			return err
		}
		return nil
	})
	m.computations[id] = list
	return err
}

func parseInstruction(b []byte) (*instruction, error) {
	i := &instruction{}
	err := each(b, func(field protowire.Number, v uint64, b []byte) (err error) {
		switch field {
		case instructionName:
			i.name = string(b)
		case instructionOpcode:
			i.opcode = string(b)
		case instructionTarget:
			i.target = string(b)
		case instructionConfig:
			i.config = string(b)
		case instructionID:
			i.id = int64(v)
		case instructionOperands:
			i.operands, err = numbers(i.operands, v, b)
		case instructionCalled:
			i.called, err = numbers(i.called, v, b)
		case instructionShape:
			i.bytes, err = shapeBytes(b, 0)
		}
		return err
	})
	return i, err
}

// maxDepth limits the depth of tuples in tuples.
const maxDepth = 64

// shapeBytes is the size of an array, or of the largest element of a tuple.
func shapeBytes(b []byte, depth int) (int64, error) {
	if depth > maxDepth {
		return 0, errMessage
	}
	var elem uint64
	var dims []int64
	largest := int64(0)
	err := each(b, func(field protowire.Number, v uint64, b []byte) (err error) {
		switch field {
		case shapeType:
			elem = v
		case shapeDimensions:
			dims, err = numbers(dims, v, b)
		case shapeTuple:
			var n int64
			n, err = shapeBytes(b, depth+1)
			largest = max(largest, n)
		}
		return err
	})
	n := elementBytes[elem]
	for _, d := range dims {
		if d < 0 || d > 0 && n > 1<<62/d {
			return 0, errMessage
		}
		n *= d
	}
	return max(n, largest), err
}
