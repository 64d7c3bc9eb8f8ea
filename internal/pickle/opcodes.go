package pickle

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

const (
	opMark       = '('
	opStop       = '.'
	opPop        = '0'
	opPopMark    = '1'
	opBinFloat   = 'G'
	opBinInt     = 'J'
	opBinInt1    = 'K'
	opBinInt2    = 'M'
	opNone       = 'N'
	opBinPersID  = 'Q'
	opReduce     = 'R'
	opBinUnicode = 'X'
	opEmptyList  = ']'
	opAppend     = 'a'
	opBuild      = 'b'
	opGlobal     = 'c'
	opAppends    = 'e'
	opBinGet     = 'h'
	opLongBinGet = 'j'
	opBinPut     = 'q'
	opLongBinPut = 'r'
	opSetItem    = 's'
	opTuple      = 't'
	opEmptyTuple = ')'
	opSetItems   = 'u'
	opEmptyDict  = '}'
	opBinBytes   = 'B'
	opShortBytes = 'C'

	opProto        = 0x80
	opNewObj       = 0x81
	opTuple1       = 0x85
	opTuple2       = 0x86
	opTuple3       = 0x87
	opTrue         = 0x88
	opFalse        = 0x89
	opLong1        = 0x8a
	opLong4        = 0x8b
	opShortUnicode = 0x8c
	opBinUnicode8  = 0x8d
	opBinBytes8    = 0x8e
	opEmptySet     = 0x8f
	opAddItems     = 0x90
	opFrozenSet    = 0x91
	opNewObjEx     = 0x92
	opStackGlobal  = 0x93
	opMemoize      = 0x94
	opFrame        = 0x95
	opByteArray8   = 0x96
)

// step runs one opcode; done is STOP.
func (d *decoder) step() (done bool, err error) {
	b, err := d.bytes(1)
	if err != nil {
		return false, err
	}
	switch op := b[0]; op {
	case opStop:
		if len(d.stack) != 1 || d.stack[0] == (mark{}) {
			return false, fmt.Errorf("it ends with %d values", len(d.stack))
		}
		return true, nil
	case opMark:
		d.push(mark{})
	case opPop:
		if n := len(d.stack); n > 0 {
			d.stack = d.stack[:n-1]
			return false, nil
		}
		return false, errStack
	case opPopMark:
		_, err = d.marked()
	case opProto:
		var v uint64
		if v, err = d.uint(1); err == nil && (v < 2 || v > 5) {
			err = fmt.Errorf("pickle protocol %d: 2 to 5 are supported", v)
		}
	case opFrame:
		var n uint64
		if n, err = d.uint(8); err == nil && n > uint64(len(d.in)-d.at) {
			err = errShort
		}
	default:
		err = d.value(op)
	}
	return false, err
}

// value runs an opcode that pushes or changes a value.
func (d *decoder) value(op byte) error {
	switch op {
	case opNone:
		d.push(nil)
	case opTrue, opFalse:
		d.push(op == opTrue)
	case opEmptyTuple:
		d.push(Tuple{})
	case opEmptyList:
		d.push(&List{})
	case opEmptyDict:
		d.push(&Dict{})
	case opEmptySet:
		d.push(&Set{&List{}})
	case opTuple1, opTuple2, opTuple3:
		return d.tuple(int(op-opTuple1) + 1)
	case opTuple, opFrozenSet, opAppends, opSetItems, opAddItems:
		vs, err := d.marked()
		switch {
		case err != nil:
			return err
		case op == opTuple:
			d.push(Tuple(vs))
		case op == opFrozenSet:
			d.push(&Set{&List{vs}})
		default:
			return d.add(op, vs)
		}
	case opAppend:
		v, err := d.pop()
		if err != nil {
			return err
		}
		return d.add(op, []any{v})
	case opSetItem:
		if err := d.tuple(2); err != nil {
			return err
		}
		v, _ := d.pop()
		return d.add(op, v.(Tuple))
	case opReduce:
		return d.call()
	case opBuild:
		return d.build()
	case opNewObj:
		class, args, err := d.callee()
		if err != nil {
			return err
		}
		d.push(&Object{Class: class, Args: args})
	case opNewObjEx:
		if _, err := d.pop(); err != nil { // keyword arguments
			return err
		}
		class, args, err := d.callee()
		if err != nil {
			return err
		}
		d.push(&Object{Class: class, Args: args})
	case opBinPersID:
		return d.persistent()
	case opStackGlobal:
		if err := d.tuple(2); err != nil {
			return err
		}
		v, _ := d.pop()
		return d.global(v.(Tuple)[0], v.(Tuple)[1])
	case opGlobal:
		module, err := d.line()
		if err != nil {
			return err
		}
		name, err := d.line()
		if err != nil {
			return err
		}
		return d.global(module, name)
	case opMemoize, opBinPut, opLongBinPut, opBinGet, opLongBinGet:
		return d.remember(op)
	default:
		return d.literal(op)
	}
	return nil
}

func (d *decoder) persistent() error {
	id, err := d.pop()
	if err != nil {
		return err
	}
	if d.c.Persistent == nil {
		return errors.New("it refers to storages of a torch.save file")
	}
	v, err := d.c.Persistent(id)
	if err != nil {
		return err
	}
	d.push(v)
	return nil
}

// remember stores to the memo or gets from it.
func (d *decoder) remember(op byte) error {
	size := 1
	if op == opLongBinPut || op == opLongBinGet {
		size = 4
	}
	key := uint64(len(d.memo))
	if op != opMemoize {
		var err error
		if key, err = d.uint(size); err != nil {
			return err
		}
	}
	if op == opBinGet || op == opLongBinGet {
		v, ok := d.memo[key]
		if !ok {
			return fmt.Errorf("it gets value %d, which it has not stored", key)
		}
		d.push(v)
		return nil
	}
	v, err := d.top()
	if err != nil {
		return err
	}
	d.memo[key] = v
	return nil
}

// literal pushes a number, a string or bytes.
func (d *decoder) literal(op byte) error {
	var b []byte
	var n uint64
	var err error
	switch op {
	case opBinInt:
		n, err = d.uint(4)
		d.push(int64(int32(uint32(n))))
	case opBinInt1:
		n, err = d.uint(1)
		d.push(int64(n))
	case opBinInt2:
		n, err = d.uint(2)
		d.push(int64(n))
	case opBinFloat:
		if b, err = d.bytes(8); err == nil {
			d.push(float(b))
		}
	case opLong1, opLong4:
		if b, err = d.counted(1 + 3*int(op-opLong1)); err == nil && len(b) > 1<<16 {
			err = fmt.Errorf("an integer of %d bytes", len(b))
		}
		if err == nil {
			d.push(long(b))
		}
	case opShortUnicode, opBinUnicode, opBinUnicode8:
		size := map[byte]int{opShortUnicode: 1, opBinUnicode: 4, opBinUnicode8: 8}[op]
		if b, err = d.counted(size); err == nil && !utf8.Valid(b) {
			err = errString
		}
		if err == nil {
			d.push(string(b))
		}
	case opShortBytes, opBinBytes, opBinBytes8, opByteArray8:
		size := map[byte]int{opShortBytes: 1, opBinBytes: 4, opBinBytes8: 8, opByteArray8: 8}[op]
		if b, err = d.counted(size); err == nil {
			d.push(append([]byte{}, b...))
		}
	default:
		return fmt.Errorf("opcode %#02x is not one of those that torch.save writes", op)
	}
	return err
}
