package pjrt

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"trireme/internal/dl"
)

// function is an entry of a plug-in's table.
type function struct {
	name   string
	offset int
}

// Error is an error that a plug-in returned.
type Error struct {
	Op      string // the function, as "PJRT_Client_Compile"
	Code    int    // CodeInvalidArgument and so on
	Message string
}

// maxMessage limits the characters of a message in Error: that of exhausted memory lists every array.
const maxMessage = 1000

// Error returns the message in one line, shortened.
func (e *Error) Error() string {
	var lines []string
	for line := range strings.Lines(e.Message) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	message := strings.Join(lines, "; ")
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage]) + " ..."
	}
	return fmt.Sprintf("%s: %s (code %d)", e.Op, message, e.Code)
}

// call calls function f with one struct of arguments, whose size it sets. Memory behind
// the struct's pointers stays alive during the call; the caller keeps memory alive whose address is a number.
func call[T any](p *Plugin, f function, args *T) error {
	e, err := invoke(p, f, args)
	if err != nil {
		return err
	}
	return p.errorOf(f, e)
}

// invoke calls a function and returns what it returns: a PJRT_Error or 0.
func invoke[T any](p *Plugin, f function, args *T) (uintptr, error) {
	fn := p.function(f)
	if fn == 0 {
		return 0, fmt.Errorf("%s does not have %s (its API is %d.%d)", p.path, f.name, p.major, p.minor)
	}
	*(*int)(unsafe.Pointer(args)) = int(unsafe.Sizeof(*args))
	r := dl.Call(fn, uintptr(unsafe.Pointer(args)))
	runtime.KeepAlive(args)
	return r, nil
}

// function returns the address of a function, 0 if the plug-in does not have it.
func (p *Plugin) function(f function) uintptr {
	if f.offset+8 > p.size {
		return 0
	}
	return *(*uintptr)(unsafe.Add(p.table, f.offset))
}

// errorOf converts a PJRT_Error and destroys it.
func (p *Plugin) errorOf(f function, e uintptr) error {
	if e == 0 {
		return nil
	}
	code := errorGetCodeArgs{Error: e}
	message := errorMessageArgs{Error: e}
	out := &Error{Op: f.name, Code: CodeUnknown}
	if _, err := invoke(p, fnErrorMessage, &message); err == nil {
		out.Message = text(message.Message, message.MessageSize)
	}
	if r, err := invoke(p, fnErrorGetCode, &code); err == nil && r == 0 {
		out.Code = int(code.Code)
	}
	_, _ = invoke(p, fnErrorDestroy, &errorDestroyArgs{Error: e})
	return out
}

// text copies n bytes of C memory.
func text(ptr unsafe.Pointer, n int) string { return string(bytesAt(ptr, n)) }

// bytesAt is n bytes of C memory.
func bytesAt(ptr unsafe.Pointer, n int) []byte { return sliceAt[byte](ptr, n) }

// sliceAt is n elements of C memory.
func sliceAt[T any](ptr unsafe.Pointer, n int) []T {
	if ptr == nil || n <= 0 {
		return nil
	}
	return unsafe.Slice((*T)(ptr), n)
}

// pointer returns the address of a slice's first element, nil without elements.
func pointer[T any](s []T) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Pointer(&s[0])
}

// address converts an address that C returned to a pointer to C's memory.
func address(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// dims64 converts dimensions.
func dims64(dims []int) []int64 {
	out := make([]int64, len(dims))
	for i, d := range dims {
		out[i] = int64(d)
	}
	return out
}
