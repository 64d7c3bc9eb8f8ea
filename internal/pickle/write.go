package pickle

import (
	"encoding/binary"
	"fmt"
)

// Call is a value to write as f(*args), then its state if not nil.
type Call struct {
	Func  Global
	Args  Tuple
	State any
}

// PersistentID is a persistent id to write.
type PersistentID struct{ ID any }

// Encode writes a value in protocol 2: the types of the package comment and of this file, with int
// beside int64. It panics for others. Values are written in full at each use, so they must not
// contain themselves.
func Encode(v any) []byte { return append(appendValue([]byte{opProto, 2}, v), opStop) }

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, opNone)
	case bool:
		if v {
			return append(b, opTrue)
		}
		return append(b, opFalse)
	case int:
		return appendInt(b, int64(v))
	case int64:
		return appendInt(b, v)
	case string:
		b = binary.LittleEndian.AppendUint32(append(b, opBinUnicode), uint32(len(v)))
		return append(b, v...)
	case Global:
		return append(append(b, opGlobal), v.Module+"\n"+v.Name+"\n"...)
	case Tuple:
		b = append(b, opMark)
		for _, item := range v {
			b = appendValue(b, item)
		}
		return append(b, opTuple)
	case *List:
		b = append(b, opEmptyList, opMark)
		for _, item := range v.Items {
			b = appendValue(b, item)
		}
		return append(b, opAppends)
	case *Dict:
		b = append(b, opEmptyDict, opMark)
		for i, key := range v.Keys {
			b = appendValue(appendValue(b, key), v.Values[i])
		}
		return append(b, opSetItems)
	case *Object:
		b = append(appendValue(appendValue(b, v.Class), v.Args), opNewObj)
		if v.State == nil {
			return b
		}
		return append(appendValue(b, v.State), opBuild)
	case Call:
		b = append(appendValue(appendValue(b, v.Func), v.Args), opReduce)
		if v.State == nil {
			return b
		}
		return append(appendValue(b, v.State), opBuild)
	case PersistentID:
		return append(appendValue(b, v.ID), opBinPersID)
	}
	panic(fmt.Sprintf("pickle: no encoding of %T", v))
}

func appendInt(b []byte, v int64) []byte {
	if v >= -1<<31 && v < 1<<31 {
		return binary.LittleEndian.AppendUint32(append(b, opBinInt), uint32(v))
	}
	return binary.LittleEndian.AppendUint64(append(b, opLong1, 8), uint64(v))
}
