package pjrt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Execute starts the program's replica on device d and returns its results, which later calls may use
// at once, and an event that is ready when the execution is done. Arguments that the program donates
// are deleted, except those that keep lists by index.
//
// Every replica calls Execute from a goroutine of its own: a program with collectives waits for all
// replicas (the CPU plug-in ends the process after 40 s). Replicas execute the same programs in the same
// order. If the device has started several executions that are not done, Execute waits for the oldest.
func (e *Executable) Execute(d *Device, args []*Buffer, keep []int) (out []*Buffer, done *Event, err error) {
	if e.client == nil {
		return nil, nil, errors.New("pjrt: execute: the program was compiled for a topology, not for devices of this machine")
	}
	if d.client != e.client {
		return nil, nil, errors.New("pjrt: execute: the device belongs to another client")
	}
	if err := e.check(args, keep); err != nil {
		return nil, nil, err
	}
	if _, err := e.client.h.acquire(); err != nil {
		return nil, nil, fmt.Errorf("pjrt: client: %w", err)
	}
	defer e.client.h.release()
	ptr, err := e.h.acquire()
	if err != nil {
		return nil, nil, fmt.Errorf("pjrt: executable: %w", err)
	}
	defer e.h.release()
	inputs := make([]uintptr, len(args))
	for i, b := range args {
		if inputs[i], err = b.h.acquire(); err != nil {
			return nil, nil, fmt.Errorf("pjrt: execute: argument %d: %w", i, err)
		}
		defer b.h.release()
	}
	d.start()

	kept := dims64(keep)
	options := &executeOptions{
		LaunchId:                 e.launch(d),
		NonDonatableInputIndices: pointer(kept), NumNonDonatableInputIndices: len(kept),
	}
	options.StructSize = int(unsafe.Sizeof(*options))
	results, events := make([]uintptr, max(len(e.outputs), 1)), make([]uintptr, 1)
	a := loadedExecutableExecuteArgs{
		Executable: ptr, Options: unsafe.Pointer(options), NumDevices: 1, NumArgs: len(inputs),
		ArgumentLists:        pointer([]unsafe.Pointer{pointer(inputs)}),
		OutputLists:          pointer([]unsafe.Pointer{pointer(results)}),
		DeviceCompleteEvents: pointer(events), ExecuteDevice: d.ptr,
	}
	if err := call(e.plugin, fnLoadedExecutableExecute, &a); err != nil {
		return nil, nil, err
	}
	for i := range e.outputs {
		out = append(out, e.client.buffer(results[i], &e.outputs[i]))
	}
	done = e.client.event(events[0], nil)
	d.record(done)
	return out, done, nil
}

// check compares the arguments with the declared ones.
func (e *Executable) check(args []*Buffer, keep []int) error {
	params := e.options.Params
	if params != nil && len(args) != len(params) {
		return fmt.Errorf("pjrt: execute: the program has %d arguments, got %d", len(params), len(args))
	}
	for i, b := range args {
		if b == nil {
			return fmt.Errorf("pjrt: execute: argument %d is nil", i)
		}
		if b.client != e.client {
			return fmt.Errorf("pjrt: execute: argument %d belongs to another client", i)
		}
		if params == nil {
			continue
		}
		got, err := b.param()
		if err != nil {
			return fmt.Errorf("pjrt: execute: argument %d: %w", i, err)
		}
		if got.Type != params[i].Type || !slices.Equal(got.Dims, params[i].Dims) {
			return fmt.Errorf("pjrt: execute: argument %d is %s, the program has %s", i, got, params[i])
		}
	}
	for _, k := range keep {
		if k < 0 || k >= len(args) {
			return fmt.Errorf("pjrt: execute: argument %d cannot be kept: there are %d", k, len(args))
		}
	}
	return nil
}

// launch returns the ID of the next execution on a device, a positive number. It is the same on every
// replica, in all processes, if all execute the same programs, and another one than those of executions
// in progress.
func (e *Executable) launch(d *Device) int32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count[d.id]++
	return max(int32((e.first+e.count[d.id])&math.MaxInt32), 1)
}
