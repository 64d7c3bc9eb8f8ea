//go:build static

package dl

// Open returns ErrStatic.
func Open(string, bool) (uintptr, error) { return 0, ErrStatic }

// OpenGlobal returns ErrStatic.
func OpenGlobal(string) (uintptr, error) { return 0, ErrStatic }

// Symbol returns ErrStatic.
func Symbol(uintptr, string) (uintptr, error) { return 0, ErrStatic }

// Call, Bind and Callback panic: without a library there is nothing to call.
func Call(uintptr, ...uintptr) uintptr { panic(ErrStatic) }

func Bind(any, uintptr) { panic(ErrStatic) }

func Callback(any) uintptr { panic(ErrStatic) }
