package launch

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// memoryVar is the variable with the descriptor of Config.Memory.
const memoryVar = "TRIREME_MEMORY_FD"

// NewMemory makes an unnamed file in memory. It is gone when no process has it open. Outside of Linux it returns
// nil.
func NewMemory() (*os.File, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	f, err := unnamedFile("trireme-memory")
	if err != nil {
		return nil, fmt.Errorf("launch: memory of the host: %w", err)
	}
	return f, nil
}

// HasMemory reports whether the launcher gave this process Config.Memory. lookup is os.LookupEnv.
func HasMemory(lookup func(string) (string, bool)) bool {
	_, ok := lookup(memoryVar)
	return ok
}

// Memory returns the file of Config.Memory in a worker; nil if there is none. It is called once.
func Memory(lookup func(string) (string, bool)) (*os.File, error) {
	v, ok := lookup(memoryVar)
	if !ok {
		return nil, nil
	}
	fd, err := strconv.Atoi(v)
	var st syscall.Stat_t
	if err != nil || fd < 3 || syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, fmt.Errorf("launch: %s=%q is not an open file: start the worker directly", memoryVar, v)
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), memoryVar), nil
}
