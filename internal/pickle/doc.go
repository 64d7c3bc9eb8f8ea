// Package pickle reads Python pickles as data and never runs code: it reads the opcodes that
// pickle protocols 2 to 5 write, and a global is a name, not an import. The caller decides what a
// call of a global means (Config.Call); a call that it refuses ends the decoding with the global's
// name and the offset.
//
// The values of a Python program become
//
//	None, bool, int, float     nil, bool, int64 (*big.Int above 64 bits), float64
//	str, bytes, bytearray      string, []byte
//	tuple, list, dict, set     Tuple, *List, *Dict, *Set
//	a class or function        Global
//	an object of a class       *Object, with its state as data
//
// Input is untrusted. Each opcode allocates memory in proportion to its own bytes, nothing is
// copied, and nothing recurses. A value may contain itself, or one value many times: callers bound
// their walks.
//
// Writer writes protocol 2, for the metadata of checkpoints.
//
// The opcodes are specified in Lib/pickletools.py of CPython.
package pickle
