package mpi

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"trireme/fault"
	"trireme/internal/dl"
)

// handle is an MPI object: an integer of 32 bits in MPICH, an address in Open MPI.
type handle = uintptr

// library is a loaded MPI and its binary interface.
type library struct {
	name       string // of the file
	handleSize uintptr
	anySource  int32

	world, bytes, null, errorsReturn handle
	statusesIgnore                   uintptr
	fn                               map[string]uintptr
}

var functions = []string{"MPI_Init_thread", "MPI_Initialized", "MPI_Finalize", "MPI_Get_library_version", "MPI_Comm_rank", "MPI_Comm_size",
	"MPI_Comm_set_errhandler", "MPI_Comm_idup", "MPI_Isend", "MPI_Irecv", "MPI_Testsome", "MPI_Cancel", "MPI_Error_string"}

// files returns the names of libraries in the order in which they are tried. Loading the MPI of another
// mpirun would make a world of one rank.
func files(openMPI bool) []string {
	mpich := []string{"libmpi.so.12", "libmpich.so.12", "libmpi.12.dylib"}
	open := []string{"libmpi.so.40", "libmpi.so.80", "libmpi.40.dylib"}
	if openMPI {
		return append(open, mpich...)
	}
	return append(mpich, open...)
}

func load(openMPI bool) (*library, error) {
	var errs []error
	for _, name := range files(openMPI) {
		lib, err := dl.OpenGlobal(name)
		if errors.Is(err, dl.ErrStatic) {
			return nil, err
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return bind(name, lib)
	}
	return nil, fault.Try(fmt.Errorf("no MPI library was found (%w)", errs[0]), "LD_LIBRARY_PATH=DIR, the directory of the libmpi that belongs to mpirun")
}

func bind(name string, lib uintptr) (*library, error) {
	l := &library{name: name, fn: map[string]uintptr{}}
	for _, f := range functions {
		at, err := dl.Symbol(lib, f)
		if err != nil {
			return nil, fmt.Errorf("%s lacks %s: an MPI of version 3 or later is needed", name, f)
		}
		l.fn[f] = at
	}
	if world, err := dl.Symbol(lib, "ompi_mpi_comm_world"); err == nil { // Open MPI
		l.handleSize, l.anySource, l.world = 8, -1, world
		for name, to := range map[string]*handle{"ompi_mpi_byte": &l.bytes, "ompi_request_null": &l.null, "ompi_mpi_errors_return": &l.errorsReturn} {
			if *to, err = dl.Symbol(lib, name); err != nil {
				return nil, fmt.Errorf("%s lacks %s", l.name, name)
			}
		}
		return l, nil
	}
	l.handleSize, l.anySource, l.statusesIgnore = 4, -2, 1
	l.world, l.bytes, l.null, l.errorsReturn = 0x44000000, 0x4c00010d, 0x2c000000, 0x54000001
	return l, nil
}

// call calls a function of MPI and returns its error.
//
//go:uintptrescapes
func (l *library) call(fn string, args ...uintptr) error {
	code := int32(dl.Call(l.fn[fn], args...))
	if code == 0 {
		return nil
	}
	text, n := make([]byte, 8192), int32(0)
	dl.Call(l.fn["MPI_Error_string"], uintptr(code), uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n)))
	return fmt.Errorf("%s: %s", fn, strings.Join(strings.Fields(string(text[:min(max(n, 0), 8192)])), " "))
}

func (l *library) version() string {
	text, n := make([]byte, 16384), int32(0)
	if l.call("MPI_Get_library_version", uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&n))) != nil {
		return l.name
	}
	words := strings.FieldsFunc(string(text[:min(max(n, 0), 16384)]), func(r rune) bool { return r == '\n' || r == ',' || r == '\x00' })
	if len(words) == 0 {
		return l.name
	}
	return strings.Join(strings.Fields(words[0]), " ")
}

// get and set access a handle in memory.
func (l *library) get(at unsafe.Pointer) handle {
	if l.handleSize == 4 {
		return handle(*(*uint32)(at))
	}
	return *(*handle)(at)
}

func (l *library) set(at unsafe.Pointer, h handle) {
	if l.handleSize == 4 {
		*(*uint32)(at) = uint32(h)
		return
	}
	*(*handle)(at) = h
}
