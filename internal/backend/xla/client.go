package xla

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"trireme/internal/backend/record"
	"trireme/internal/pjrt"
)

// Client compiles programs for the ranks of a process. It is safe for concurrent use.
type Client struct {
	client   *pjrt.Client
	replicas int
	devices  []int // the device of each rank, by id
	flags    []pjrt.Flag
	mu       sync.Mutex
	programs map[[sha256.Size]byte]*program
}

// program is a compiled program.
type program struct {
	once sync.Once
	*module
	exec    *pjrt.Executable
	err     error
	seconds float64
}

// NewClient returns a client for a job whose rank r runs on devices[r].
func NewClient(c *pjrt.Client, devices []int, flags []pjrt.Flag) *Client {
	return &Client{client: c, replicas: len(devices), devices: devices, flags: flags, programs: map[[sha256.Size]byte]*program{}}
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
		if x.module, x.err = emit(p, c.client.Platform(), groups, c.replicas); x.err != nil {
			return
		}
		o := pjrt.CompileOptions{Replicas: c.replicas, Devices: c.devices, Flags: c.flags}
		for _, a := range x.params {
			o.Params = append(o.Params, pjrt.Param{Type: a.pjrtType(), Dims: a.dims})
		}
		if x.exec, x.err = c.client.Compile(x.text, o); x.err != nil {
			x.err = fmt.Errorf("xla: compiling a program of %d operations: %w", len(p.Ops), x.err)
		}
		x.seconds = time.Since(began).Seconds()
	})
	return x, x.err
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
