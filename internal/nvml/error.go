package nvml

import "fmt"

// Code is a nvmlReturn_t.
type Code int32

// Codes that callers distinguish.
const (
	codeNotSupported Code = 3
	codeNoDriver     Code = 9
	codeTimeout      Code = 10
	codeNoLibrary    Code = 12
	codeLost         Code = 15
	codeReset        Code = 16
)

// names are the codes' meanings.
var names = map[Code]string{
	1: "not initialized", 2: "invalid argument", codeNotSupported: "not supported", 4: "no permission", 6: "not found", 7: "a buffer is too small",
	8: "external power is not attached", codeNoDriver: "the driver is not loaded", codeTimeout: "timed out", 11: "interrupt request failed",
	codeNoLibrary: "the driver's library was not found", 13: "function not found", 14: "the info ROM is corrupted",
	codeLost: "the GPU has fallen off the bus or is inaccessible", codeReset: "the GPU needs a reset",
	17: "the operating system blocks access", 18: "the library and the driver have different versions", 19: "in use", 20: "out of memory",
	23: "insufficient resources", 27: "deprecated", 28: "not ready", 29: "no GPU was found", 999: "unknown error",
}

func (c Code) Error() string {
	if n := names[c]; n != "" {
		return n
	}
	return fmt.Sprintf("error %d", int32(c))
}

// Error is the error of a function of the library. errors.Is(err, ErrLost) finds a lost GPU.
type Error struct {
	Call string
	Code Code
}

func (e *Error) Error() string { return fmt.Sprintf("nvml: %s: %v", e.Call, e.Code) }

func (e *Error) Unwrap() error { return e.Code }

// ErrLost is the code of a GPU that no longer answers.
const ErrLost = codeLost

func check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	return &Error{call, Code(code)}
}

// XIDError is an error that the driver reported for a GPU.
type XIDError struct {
	Card Card
	XID  int // https://docs.nvidia.com/deploy/xid-errors
}

func (e *XIDError) Error() string {
	meaning := ""
	if m := xids[e.XID]; m != "" {
		meaning = ": " + m
	}
	return fmt.Sprintf("GPU %d (%s, %s) reported XID %d%s", e.Card.Index, e.Card.Name, e.Card.BusID, e.XID, meaning)
}

// xids are the meanings of errors that end a run.
var xids = map[int]string{
	13: "graphics engine exception", 31: "memory page fault", 43: "the GPU stopped processing", 45: "a program was ended",
	48: "double-bit memory error", 62: "internal micro-controller halt", 63: "a memory row is remapped", 64: "remapping a memory row failed",
	74: "NVLink error", 79: "the GPU has fallen off the bus", 92: "many single-bit memory errors", 94: "contained memory error",
	95: "uncontained memory error", 119: "the GPU's system processor timed out", 120: "error of the GPU's system processor",
	140: "unrecovered memory error", 143: "link initialization failed", 149: "NVLink error", 154: "the GPU needs a reset or a reboot",
}
