package pjrt

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Topology describes devices that this machine may lack.
type Topology struct {
	plugin *Plugin
	h      handle
}

// NewTopology describes devices by options. Those of CUDA are target_config, the text of a
// GpuTargetConfigProto, and topology, "<partitions>x<hosts>x<devices per host>".
func (p *Plugin) NewTopology(options []Option) (*Topology, error) {
	values, keep, err := namedValues(options)
	if err != nil {
		return nil, err
	}
	name := []byte("topology") // required, without meaning
	a := topologyDescriptionCreateArgs{TopologyName: pointer(name), CreateOptions: pointer(values), NumOptions: len(values)}
	err = call(p, fnTopologyDescriptionCreate, &a)
	runtime.KeepAlive(keep)
	if err != nil {
		return nil, err
	}
	return &Topology{p, handle{ptr: a.Topology, destroy: func(ptr uintptr) {
		_ = call(p, fnTopologyDescriptionDestroy, &topologyDescriptionDestroyArgs{Topology: ptr})
	}}}, nil
}

// Compile compiles a module of StableHLO text for the devices. The Executable cannot execute.
func (t *Topology) Compile(text string, o CompileOptions) (*Executable, error) {
	ptr, err := t.h.acquire()
	if err != nil {
		return nil, fmt.Errorf("pjrt: topology: %w", err)
	}
	defer t.h.release()
	a := compileArgs{Topology: ptr}
	dropped, err := o.compile(text, func(module unsafe.Pointer, options []byte) error {
		a.Program, a.CompileOptions, a.CompileOptionsSize = module, pointer(options), len(options)
		return call(t.plugin, fnCompile, &a)
	})
	if err != nil {
		return nil, err
	}
	e := &Executable{plugin: t.plugin, options: o, dropped: dropped}
	e.setProgram(a.Executable)
	if err := e.readOutputs(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Close releases the topology.
func (t *Topology) Close() { t.h.close() }
