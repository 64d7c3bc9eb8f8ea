package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"trireme/fault"
	"trireme/internal/backend/xla"
	"trireme/internal/backend/xla/cudnn"
	"trireme/internal/nvml"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/plugin"
)

// openAccelerator opens the device of a rank: device p.Rank of the client that the ranks of this process
// share. Ranks may call it concurrently.
func openAccelerator(c Config, p Process, o Options) (Device, error) {
	client, err := acquire(c, p)
	if err != nil {
		return nil, err
	}
	host, err := Open("cpu", Options{Threads: o.Threads, Shared: o.Shared, Reserve: o.Reserve})
	if err != nil {
		return nil, errors.Join(err, client.release())
	}
	return &accelerator{xla.New(client.programs, client.Devices()[p.Rank], host), client}, nil
}

// accelerator is a rank's device.
type accelerator struct {
	*xla.Backend
	client *client
}

func (a *accelerator) Close() error { return errors.Join(a.Backend.Close(), a.client.release()) }

// client is a plug-in's client, shared by the ranks of a process.
type client struct {
	*pjrt.Client
	programs *xla.Client
	opened   sync.Once
	err      error
	key      clientKey
	users    int
}

// clientKey distinguishes clients.
type clientKey struct {
	name                       Name
	plugin                     string
	memory                     float64
	preallocate, deterministic bool
	index, count, ranks, local int
}

var (
	clientsMu sync.Mutex
	clients   = map[clientKey]*client{}
)

// acquire returns the client for a configuration, which the first call opens. Each caller releases it.
func acquire(c Config, p Process) (*client, error) {
	key := clientKey{c.Name, c.Plugin, c.MemoryFraction, c.Preallocate, c.Deterministic, p.Index, max(1, p.Count), max(1, p.Ranks), p.Local}
	clientsMu.Lock()
	s := clients[key]
	if s == nil {
		s = &client{key: key}
		clients[key] = s
	}
	s.users++
	clientsMu.Unlock()
	s.opened.Do(func() {
		var gpu *cudnn.Device
		if s.Client, gpu, s.err = newClient(plugin.Machine(), nvml.File, c, p); s.err == nil {
			s.programs = xla.NewClient(s.Client, jobDevices(s.Client, p), compilerFlags(c))
			if dir, err := os.UserCacheDir(); err == nil {
				s.programs.Cache = filepath.Join(dir, "trireme", "programs")
			}
			if gpu != nil {
				s.programs.CallCuDNN(*gpu)
			}
		}
	})
	if s.err != nil {
		_ = s.release() // nothing is open
		return nil, s.err
	}
	return s, nil
}

// release ends a caller's use of the client, and closes it after the last.
func (s *client) release() error {
	clientsMu.Lock()
	defer clientsMu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	delete(clients, s.key)
	if s.Client == nil {
		return nil
	}
	s.programs.Close()
	return s.Client.Close()
}

// compilerFlags are the flags that a configuration requires of the compiler.
func compilerFlags(c Config) []pjrt.Flag {
	if c.Name != CUDA || !c.Deterministic {
		return nil
	}
	return []pjrt.Flag{{Name: "xla_gpu_exclude_nondeterministic_ops", Value: true}}
}

// jobDevices are the devices of all ranks of the job, by id. Plug-ins number those of several processes in
// the order of the processes.
func jobDevices(c *pjrt.Client, p Process) (ids []int) {
	ranks := max(1, p.Ranks)
	if p.Count > 1 {
		for i := range p.Count * ranks {
			ids = append(ids, i)
		}
		return ids
	}
	for _, d := range c.Devices()[:ranks] {
		ids = append(ids, d.ID())
	}
	return ids
}

// find returns the plug-in and the machine's GPUs. It loads nothing and refuses what cannot run ranks on this
// machine.
func find(s plugin.System, driver string, c Config, ranks int) (found plugin.Found, g gpus, err error) {
	if g, err = readGPUs(driver, s.LookupEnv); err != nil {
		return found, g, fmt.Errorf("device: %w", err)
	}
	kind := map[Name]plugin.Kind{CUDA: plugin.CUDA, TPU: plugin.TPU, XLA: plugin.Other}[c.Name]
	if found, err = plugin.Find(s, kind, c.Plugin, g.cuda.Major); err != nil {
		return found, g, err
	}
	if found.Kind != plugin.CUDA {
		return found, g, nil
	}
	if err := g.check(ranks); err != nil {
		return found, g, err
	}
	if err := found.CheckLibraries(); err != nil {
		return found, g, fmt.Errorf("device: %w", err)
	}
	return found, g, nil
}

// UnfitError is an error of a plug-in's file, or of a device that it cannot run: opening it again fails alike.
type UnfitError struct{ Err error }

func (e *UnfitError) Error() string { return e.Err.Error() }

func (e *UnfitError) Unwrap() error { return e.Err }

// newClient finds, prepares and loads the plug-in and starts the devices of this process. driver is NVIDIA's
// library. The GPU is that of the first rank, nil if it or cuDNN is unknown.
func newClient(s plugin.System, driver string, c Config, p Process) (*pjrt.Client, *cudnn.Device, error) {
	found, gpus, err := find(s, driver, c, p.Local+max(1, p.Ranks))
	if err != nil {
		return nil, nil, &UnfitError{err}
	}
	if err := found.Prepare(plugin.GPUs{Hopper: gpus.hopper}); err != nil {
		return nil, nil, &UnfitError{fault.Try(fmt.Errorf("device: %w", err), "trireme doctor devices")}
	}
	loaded, err := pjrt.Load(found.Path)
	if err != nil {
		return nil, nil, &UnfitError{fault.Try(fmt.Errorf("device: %w", err), "trireme doctor devices")}
	}
	attributes, err := loaded.Attributes()
	if err != nil {
		return nil, nil, fmt.Errorf("device: %w", err)
	}
	version, _ := attributes["cuda_version"].(int64)
	if err := gpus.checkDriver(version, found); err != nil {
		return nil, nil, &UnfitError{err}
	}
	var store pjrt.KeyValue
	switch {
	case p.Count > 1 && found.Kind == plugin.CPU:
		return nil, nil, &UnfitError{fault.Try(fmt.Errorf("device: plug-in %s runs all ranks in one process, and this job has %d processes", found.Path, p.Count),
			"%s", fault.Set("device.ranks_per_process", p.Count*max(1, p.Ranks)))}
	case p.Count > 1:
		store = p.Store
	}
	opened, err := loaded.NewClient(clientOptions(found.Kind, c, p), store)
	if err != nil {
		return nil, nil, explain(found, err)
	}
	if err := checkPlatform(c.Name, opened.Platform(), found); err != nil {
		_ = opened.Close()
		return nil, nil, &UnfitError{err}
	}
	if n, ranks := len(opened.Devices()), max(1, p.Ranks); n < ranks {
		_ = opened.Close()
		return nil, nil, &UnfitError{tooFew(ranks, n, opened.Platform())}
	}
	return opened, gpus.cudnn(found, p.Local), nil
}

// checkPlatform refuses a plug-in for other devices than the name says.
func checkPlatform(name Name, platform string, found plugin.Found) error {
	if name == XLA || string(name) == platform {
		return nil
	}
	return fault.Try(fault.At("device.plugin", "%s is a plug-in for %s, and device.name is %s", found.Path, platform, name), "%s", fault.Set("device.name", XLA))
}

// clientOptions are the options of the client. Each rank of the process uses one device of the machine, in
// order, starting at the local rank of the first.
func clientOptions(kind plugin.Kind, c Config, p Process) (out []pjrt.Option) {
	ranks := max(1, p.Ranks)
	switch kind {
	case plugin.CPU:
		return []pjrt.Option{{Name: "cpu_device_count", Value: int64(ranks)}}
	case plugin.CUDA:
		visible := make([]int64, ranks)
		for i := range visible {
			visible[i] = int64(p.Local + i)
		}
		out = []pjrt.Option{
			{Name: "allocator", Value: "bfc"}, {Name: "memory_fraction", Value: float32(c.MemoryFraction)}, {Name: "preallocate", Value: c.Preallocate},
			{Name: "visible_devices", Value: visible},
		}
	}
	if p.Count > 1 {
		out = append(out, pjrt.Option{Name: "node_id", Value: int64(p.Index)}, pjrt.Option{Name: "num_nodes", Value: int64(p.Count)})
	}
	return out
}
