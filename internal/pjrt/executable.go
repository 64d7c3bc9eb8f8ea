package pjrt

import (
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"unsafe"

	"trireme/internal/dl"
)

// Executable is a compiled program.
type Executable struct {
	plugin  *Plugin
	client  *Client // nil: compiled for a Topology, cannot execute
	h       handle  // PJRT_LoadedExecutable, with a client
	program handle  // PJRT_Executable
	options CompileOptions
	dropped []string
	outputs []Param

	first uint32 // IDs of launches start here
	mu    sync.Mutex
	count map[int]uint32 // executions by device
}

// CompiledMemory is the memory of a program in bytes per device. Peak is 0 if the plug-in does not
// report it; the CPU's leaves Temp out of it.
type CompiledMemory struct {
	Code, Arguments, Outputs, Alias, Temp, Peak               int64
	HostCode, HostArguments, HostOutputs, HostAlias, HostTemp int64
}

// loaded makes the Executable of a client that the caller has acquired. Processes
// that load it from equal sources give its executions the same IDs.
func (c *Client) loaded(ptr uintptr, o CompileOptions, source []byte, dropped []string) (*Executable, error) {
	e := &Executable{plugin: c.plugin, client: c, options: o, dropped: dropped, first: crc32.ChecksumIEEE(source), count: map[int]uint32{}}
	e.h = c.child(ptr, func(ptr uintptr) {
		_ = call(c.plugin, fnLoadedExecutableDestroy, &loadedExecutableDestroyArgs{Executable: ptr})
	})
	a := loadedExecutableGetExecutableArgs{LoadedExecutable: ptr}
	if err := call(c.plugin, fnLoadedExecutableGetExecutable, &a); err != nil {
		e.h.close()
		return nil, err
	}
	e.setProgram(a.Executable)
	if err := e.readOutputs(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Executable) setProgram(ptr uintptr) {
	e.program = handle{ptr: ptr, destroy: func(ptr uintptr) {
		_ = call(e.plugin, fnExecutableDestroy, &executableDestroyArgs{Executable: ptr})
	}}
}

// readOutputs reads the types and dimensions of the results.
func (e *Executable) readOutputs() error {
	n := executableNumOutputsArgs{Executable: e.program.ptr}
	if err := call(e.plugin, fnExecutableNumOutputs, &n); err != nil {
		return err
	}
	t := executableOutputElementTypesArgs{Executable: e.program.ptr}
	if err := call(e.plugin, fnExecutableOutputElementTypes, &t); err != nil {
		return err
	}
	d := executableOutputDimensionsArgs{Executable: e.program.ptr}
	if err := call(e.plugin, fnExecutableOutputDimensions, &d); err != nil {
		return err
	}
	if t.NumOutputTypes != n.NumOutputs || d.NumOutputs != n.NumOutputs {
		return fmt.Errorf("plug-in %s: a program of %d outputs has %d types and %d shapes", e.plugin.path, n.NumOutputs, t.NumOutputTypes, d.NumOutputs)
	}
	types, ranks := sliceAt[int32](t.OutputTypes, n.NumOutputs), sliceAt[int](d.DimSizes, n.NumOutputs)
	total := 0
	for _, r := range ranks {
		total += r
	}
	dims := sliceAt[int64](d.Dims, total)
	for i, r := range ranks {
		p := Param{Type: Type(types[i])}
		for _, d := range dims[:r] {
			p.Dims = append(p.Dims, int(d))
		}
		dims = dims[r:]
		e.outputs = append(e.outputs, p)
	}
	return nil
}

// Outputs returns the types and dimensions of the results.
func (e *Executable) Outputs() []Param { return slices.Clone(e.outputs) }

// Dropped returns the names of optional flags that the compiler does not have. An executable from
// Deserialize has none.
func (e *Executable) Dropped() []string { return slices.Clone(e.dropped) }

// acquireProgram returns the PJRT_Executable; the caller releases it.
func (e *Executable) acquireProgram() (uintptr, error) {
	ptr, err := e.program.acquire()
	if err != nil {
		return 0, fmt.Errorf("pjrt: executable: %w", err)
	}
	return ptr, nil
}

// Memory returns the memory that one execution needs.
func (e *Executable) Memory() (CompiledMemory, error) {
	ptr, err := e.acquireProgram()
	if err != nil {
		return CompiledMemory{}, err
	}
	defer e.program.release()
	a := executableGetCompiledMemoryStatsArgs{Executable: ptr}
	if err := call(e.plugin, fnExecutableGetCompiledMemoryStats, &a); err != nil {
		return CompiledMemory{}, err
	}
	return CompiledMemory{
		Code: a.GeneratedCodeSizeInBytes, Arguments: a.ArgumentSizeInBytes, Outputs: a.OutputSizeInBytes,
		Alias: a.AliasSizeInBytes, Temp: a.TempSizeInBytes, Peak: a.PeakMemoryInBytes,
		HostCode: a.HostGeneratedCodeSizeInBytes, HostArguments: a.HostArgumentSizeInBytes, HostOutputs: a.HostOutputSizeInBytes,
		HostAlias: a.HostAliasSizeInBytes, HostTemp: a.HostTempSizeInBytes,
	}, nil
}

// Serialize returns the compiled program for Client.Deserialize.
func (e *Executable) Serialize() ([]byte, error) {
	ptr, err := e.acquireProgram()
	if err != nil {
		return nil, err
	}
	defer e.program.release()
	a := executableSerializeArgs{Executable: ptr}
	if err := call(e.plugin, fnExecutableSerialize, &a); err != nil {
		return nil, err
	}
	out, err := e.plugin.seal(bytesAt(a.SerializedBytes, a.SerializedBytesSize))
	if a.SerializedExecutableDeleter != 0 {
		dl.Call(a.SerializedExecutableDeleter, a.SerializedExecutable)
	}
	return out, err
}

// Text returns the optimized program in the plug-in's format: of XLA, a serialized
// HloModuleProtoWithConfig.
func (e *Executable) Text() (string, error) {
	ptr, err := e.acquireProgram()
	if err != nil {
		return "", err
	}
	defer e.program.release()
	p := &program{}
	p.StructSize = int(unsafe.Sizeof(*p))
	a := executableOptimizedProgramArgs{Executable: ptr, Program: unsafe.Pointer(p)}
	if err := call(e.plugin, fnExecutableOptimizedProgram, &a); err != nil { // the size
		return "", err
	}
	code := make([]byte, p.CodeSize)
	p.Code = pointer(code)
	if err := call(e.plugin, fnExecutableOptimizedProgram, &a); err != nil {
		return "", err
	}
	return string(code), nil
}

// Fingerprint returns a value that equal programs share.
func (e *Executable) Fingerprint() (string, error) {
	ptr, err := e.acquireProgram()
	if err != nil {
		return "", err
	}
	defer e.program.release()
	a := executableFingerprintArgs{Executable: ptr}
	if err := call(e.plugin, fnExecutableFingerprint, &a); err != nil {
		return "", err
	}
	return text(a.ExecutableFingerprint, a.ExecutableFingerprintSize), nil
}

// Close releases the program. Executions in progress complete.
func (e *Executable) Close() {
	e.program.close()
	if e.client != nil {
		e.h.close()
	}
}
