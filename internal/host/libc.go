package host

import (
	"runtime"

	"trireme/internal/dl"
)

// libc returns the C library that plug-ins and MPI use, "glibc 2.36"; empty if there is none.
func libc() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	lib, err := dl.Open("libc.so.6", false)
	if err != nil {
		return ""
	}
	symbol, err := dl.Symbol(lib, "gnu_get_libc_version")
	if err != nil {
		return ""
	}
	var version func() string
	dl.Bind(&version, symbol)
	return "glibc " + version()
}
