package pjrt

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// Client is a set of devices that one process uses.
type Client struct {
	plugin            *Plugin
	h                 handle
	platform, version string
	process           int
	devices           []*Device
	writes            sync.Map // *Event -> []byte: the memory that downloads in progress write to
}

// NewClient starts the devices of a plug-in. With kv they are devices of a job of several processes,
// which the options node_id and num_nodes describe; nil means one process. It returns an error if
// there is no device.
func (p *Plugin) NewClient(options []Option, kv KeyValue) (*Client, error) {
	values, keep, err := namedValues(options)
	if err != nil {
		return nil, err
	}
	a := clientCreateArgs{CreateOptions: pointer(values), NumOptions: len(values)}
	disconnect := func() {}
	if kv != nil {
		disconnect = connect(&a, kv)
	}
	err = call(p, fnClientCreate, &a)
	runtime.KeepAlive(keep)
	if err != nil {
		disconnect()
		return nil, err
	}
	c := &Client{plugin: p, h: handle{ptr: a.Client, destroy: func(ptr uintptr) {
		_ = call(p, fnClientDestroy, &clientDestroyArgs{Client: ptr})
		disconnect()
	}}}
	if err := c.describe(); err != nil {
		c.h.close()
		return nil, err
	}
	return c, nil
}

// describe reads what does not change.
func (c *Client) describe() error {
	name := clientPlatformNameArgs{Client: c.h.ptr}
	version := clientPlatformVersionArgs{Client: c.h.ptr}
	process := clientProcessIndexArgs{Client: c.h.ptr}
	devices := clientAddressableDevicesArgs{Client: c.h.ptr}
	if err := call(c.plugin, fnClientPlatformName, &name); err != nil {
		return err
	}
	if err := call(c.plugin, fnClientPlatformVersion, &version); err != nil {
		return err
	}
	if err := call(c.plugin, fnClientProcessIndex, &process); err != nil {
		return err
	}
	if err := call(c.plugin, fnClientAddressableDevices, &devices); err != nil {
		return err
	}
	c.platform = text(name.PlatformName, name.PlatformNameSize)
	c.version = strings.TrimSpace(text(version.PlatformVersion, version.PlatformVersionSize))
	c.process = int(process.ProcessIndex)
	for _, ptr := range sliceAt[uintptr](devices.AddressableDevices, devices.NumAddressableDevices) {
		d, err := newDevice(c, ptr)
		if err != nil {
			return err
		}
		c.devices = append(c.devices, d)
	}
	if len(c.devices) == 0 {
		return fmt.Errorf("plug-in %s: its client has no devices", c.plugin.path)
	}
	slices.SortFunc(c.devices, func(a, b *Device) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// Plugin returns the client's plug-in.
func (c *Client) Plugin() *Plugin { return c.plugin }

// Platform returns the platform's name: cpu, cuda, tpu.
func (c *Client) Platform() string { return c.platform }

// PlatformVersion returns the version of the compiler or driver, as the plug-in writes it.
func (c *Client) PlatformVersion() string { return c.version }

// ProcessIndex returns this process's number in the job.
func (c *Client) ProcessIndex() int { return c.process }

// Devices returns the devices of this process, ordered by ID.
func (c *Client) Devices() []*Device { return c.devices }

// Close releases the client once the last executable, buffer and event made from it is closed.
func (c *Client) Close() error {
	if c.h.close() {
		for _, d := range c.devices {
			d.forget()
		}
	}
	return nil
}

// child makes the handle of an object of this client. The caller has acquired the client.
func (c *Client) child(ptr uintptr, f func(ptr uintptr)) handle {
	c.h.retain()
	return handle{ptr: ptr, destroy: func(ptr uintptr) {
		f(ptr)
		c.h.release()
	}}
}

// Compile compiles a module of StableHLO text whose entry is the function main.
func (c *Client) Compile(text string, o CompileOptions) (*Executable, error) {
	ptr, err := c.h.acquire()
	if err != nil {
		return nil, fmt.Errorf("pjrt: client: %w", err)
	}
	defer c.h.release()
	a := clientCompileArgs{Client: ptr}
	dropped, err := o.compile(text, func(module unsafe.Pointer, options []byte) error {
		a.Program, a.CompileOptions, a.CompileOptionsSize = module, pointer(options), len(options)
		return call(c.plugin, fnClientCompile, &a)
	})
	if err != nil {
		return nil, err
	}
	return c.loaded(a.Executable, o, []byte(text), dropped)
}

// Deserialize loads an executable that Executable.Serialize of the same plug-in returned; the error of
// other bytes wraps ErrForeign. It runs with the options of its compilation; o repeats them. The
// processes of a job load the same bytes.
func (c *Client) Deserialize(b []byte, o CompileOptions) (*Executable, error) {
	return c.deserialize(b, b, o)
}

func (c *Client) deserialize(b, source []byte, o CompileOptions) (*Executable, error) {
	if _, err := o.encode(nil); err != nil {
		return nil, err
	}
	b, err := c.plugin.unseal(b)
	if err != nil {
		return nil, fmt.Errorf("pjrt: executable of %d bytes: %w", len(b), err)
	}
	ptr, err := c.h.acquire()
	if err != nil {
		return nil, fmt.Errorf("pjrt: client: %w", err)
	}
	defer c.h.release()
	a := executableDeserializeAndLoadArgs{Client: ptr, SerializedExecutable: pointer(b), SerializedExecutableSize: len(b)}
	if err := call(c.plugin, fnExecutableDeserializeAndLoad, &a); err != nil {
		return nil, err
	}
	return c.loaded(a.LoadedExecutable, o, source, nil)
}
