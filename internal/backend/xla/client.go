package xla

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"trireme/fault"
	"trireme/internal/backend/record"
	"trireme/internal/pjrt"
	"trireme/tensor"
)

// Client compiles programs for the ranks of a process. It is safe for concurrent use.
type Client struct {
	// Cache is the directory of compiled programs; empty keeps none. Set it before the first program.
	Cache string

	client   *pjrt.Client
	target   target
	replicas int
	devices  []int // the device of each rank, by id
	flags    []pjrt.Flag
	mu       sync.Mutex
	programs map[[sha256.Size]byte]*program
	compiled []tensor.Compilation // in the order of their end
}

// program is a compiled program.
type program struct {
	once sync.Once
	*module
	exec *pjrt.Executable
	err  error
}

// NewClient returns a client for a job whose rank r runs on devices[r].
func NewClient(c *pjrt.Client, devices []int, flags []pjrt.Flag) *Client {
	return &Client{client: c, target: newTarget(c.Platform()), replicas: len(devices), devices: devices, flags: flags, programs: map[[sha256.Size]byte]*program{}}
}

// compile returns the compiled form of p; ranks with the same program share it.
func (c *Client) compile(p *record.Program, groups map[string][][]int) (*program, error) {
	c.mu.Lock()
	x := c.programs[p.Key]
	if x == nil {
		x = &program{}
		c.programs[p.Key] = x
	}
	c.mu.Unlock()
	x.once.Do(func() {
		began := time.Now()
		x.err = errors.New("xla: a program was not built") // if build panics
		if x.err = c.build(x, p, groups); x.err != nil {
			x.err = explain(fmt.Errorf("xla: compiling a program of %d operations: %w", len(p.Ops), x.err))
			return
		}
		info := tensor.Compilation{Seconds: time.Since(began).Seconds(), Ops: len(p.Ops)}
		if m, err := x.exec.Memory(); err == nil {
			info.PeakBytes, info.ArgumentBytes, info.TempBytes = max(m.Peak, m.Arguments+m.Outputs-m.Alias+m.Temp), m.Arguments, m.Temp
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		info.Name = fmt.Sprintf("program %d", len(c.compiled)+1)
		c.compiled = append(c.compiled, info)
	})
	return x, x.err
}

// build emits and compiles p.
func (c *Client) build(x *program, p *record.Program, groups map[string][][]int) (err error) {
	if x.module, err = emit(p, c.target, groups, c.replicas); err != nil {
		return err
	}
	o := pjrt.CompileOptions{Replicas: c.replicas, Devices: c.devices, Flags: c.flags, Optional: Flags(c.target.platform)}
	for _, a := range x.params {
		o.Params = append(o.Params, pjrt.Param{Type: a.pjrtType(), Dims: a.dims})
	}
	if c.Cache != "" && c.target.platform == "cuda" {
		// The choices among algorithms, so that programs compiled again have the same bits.
		dir := filepath.Join(c.Cache, "autotuning")
		if err := os.MkdirAll(dir, 0o755); err == nil {
			o.Optional = append(o.Optional, pjrt.Flag{Name: "xla_gpu_per_fusion_autotune_cache_dir", Value: dir})
		}
	}
	if c.Cache == "" {
		x.exec, err = c.client.Compile(x.text, o)
	} else {
		x.exec, _, err = c.client.CompileCached(c.Cache, x.text, o)
	}
	return err
}

// Compiled lists the compiled programs.
func (c *Client) Compiled() []tensor.Compilation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.compiled)
}

// resourceExhausted is PJRT's code for too little memory.
const resourceExhausted = 8

// explain adds advice to errors of a device.
func explain(err error) error {
	var e *pjrt.Error
	if errors.As(err, &e) && e.Code == resourceExhausted {
		return fault.Try(err, "%s, or %s, or more ranks with %s", fault.Set("training.micro_batch_size", "1"), fault.Set("activation_checkpointing.enabled", true), fault.Set("parallel.strategy", "full_shard"))
	}
	return err
}

// Close frees all programs.
func (c *Client) Close() {
	for _, x := range c.programs {
		if x.exec != nil {
			x.exec.Close()
		}
	}
}

func (v value) pjrtType() pjrt.Type {
	for dt, e := range elems {
		if e == v.elem {
			return pjrtTypes[dt]
		}
	}
	panic("xla: no type of " + string(v.elem))
}
