//go:build !static

package dl

import (
	"runtime"
	"testing"
	"unsafe"
)

// The C library calls a Go function: qsort sorts with it.
func TestCall(t *testing.T) {
	name := map[string]string{"linux": "libc.so.6", "darwin": "/usr/lib/libSystem.B.dylib"}[runtime.GOOS]
	libc, err := Open(name, true)
	if err != nil {
		t.Fatal(err)
	}
	qsort, err := Symbol(libc, "qsort")
	if err != nil {
		t.Fatal(err)
	}
	v := []int32{3, -1, 2}
	compare := Callback(func(a, b *int32) uintptr { return uintptr(*a - *b) })
	Call(qsort, uintptr(unsafe.Pointer(&v[0])), uintptr(len(v)), 4, compare)
	if v[0] != -1 || v[1] != 2 || v[2] != 3 {
		t.Error(v)
	}
	abs, err := Symbol(libc, "abs")
	if err != nil {
		t.Fatal(err)
	}
	var f func(int32) int32
	Bind(&f, abs)
	if f(-5) != 5 {
		t.Error(f(-5))
	}
	if _, err := Symbol(libc, "no_such_symbol"); err == nil {
		t.Error("a symbol that does not exist was found")
	}
	if _, err := Open("/no/such/library", false); err == nil {
		t.Error("a library that does not exist was opened")
	}
}
