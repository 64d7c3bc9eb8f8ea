//go:build !static

package dl

import "github.com/ebitengine/purego"

// Open loads a library by its path, or by its name where the system's loader looks. Symbols are
// resolved at once if now is set, else at their first use, and are not visible to other libraries.
func Open(path string, now bool) (library uintptr, err error) {
	mode := purego.RTLD_LAZY
	if now {
		mode = purego.RTLD_NOW
	}
	return purego.Dlopen(path, mode|purego.RTLD_LOCAL)
}

// OpenGlobal is Open for a library whose parts, which it loads by itself, use its symbols.
func OpenGlobal(path string) (library uintptr, err error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// Symbol returns the address of a library's symbol.
func Symbol(library uintptr, name string) (uintptr, error) { return purego.Dlsym(library, name) }

// Call calls a C function whose arguments and result are integers or pointers. Go memory that an
// argument points to does not move during the call; the caller keeps it alive.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// Bind sets the function variable that to points to, to call the C function at symbol.
func Bind(to any, symbol uintptr) { purego.RegisterFunc(to, symbol) }

// Callback returns a C function that calls the Go function fn. It is never freed, and a process has no
// more than 2000.
func Callback(fn any) uintptr { return purego.NewCallback(fn) }
