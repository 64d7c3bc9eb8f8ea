package xla

import (
	"crypto/sha256"
	"maps"
	"time"

	"trireme/collective"
	"trireme/internal/backend/record"
	"trireme/internal/backend/xla/cudnn"
	"trireme/internal/pjrt"
	"trireme/internal/pjrt/hlo"
	"trireme/tensor"
)

// Compiler is a backend that compiles programs for devices that the machine may lack, and computes
// nothing.
type Compiler struct {
	*record.Backend
	options  CompilerOptions
	groups   map[string][][]int         // rank lists of all groups, by name
	known    map[[sha256.Size]byte]bool // compiled programs, by key
	calls    int                        // of Compile
	programs []*Compiled
}

// CompilerOptions configure a Compiler.
type CompilerOptions struct {
	Topology *pjrt.Topology
	Platform string // cuda, tpu
	Replicas int
	GPU      *cudnn.Device // for attention by cuDNN; nil for none
	Flags    []pjrt.Flag   // required ones; Flags adds others
	// Started is called before a compilation, with the index of the call of Compile; nil ignores it.
	Started func(call, operations int)
}

// Compiled is a compiled program.
type Compiled struct {
	Call       int     // index of the first call of Compile that has it
	Operations int     // as recorded
	Seconds    float64 // to emit and compile it
	Memory     pjrt.CompiledMemory
	// Collectives are those that the compiler has scheduled.
	Collectives []hlo.Collective

	buffers map[*tensor.Buffer]bool // with contents before or after it
}

// NewCompiler returns a Compiler around inner, a backend without storage.
func NewCompiler(inner tensor.Backend, o CompilerOptions) *Compiler {
	return &Compiler{Backend: record.New(inner), options: o, groups: map[string][][]int{}, known: map[[sha256.Size]byte]bool{}}
}

// Name is the platform.
func (c *Compiler) Name() string { return c.options.Platform }

// BlockBytes is the platform's.
func (c *Compiler) BlockBytes() int { return BlockBytes(c.options.Platform) }

// IsMeta is true: tensors have no storage.
func (c *Compiler) IsMeta() bool { return true }

// Close does nothing.
func (c *Compiler) Close() error { return nil }

// World wraps w for tensors of c.
func (c *Compiler) World(w collective.World) collective.World {
	return world{c.Backend.World(w), c.groups}
}

// Compile compiles f as a program, unless an equal one was compiled before.
func (c *Compiler) Compile(last bool, f func() error) error {
	call := c.calls
	c.calls++
	rec, err := c.Record(last, f)
	if err != nil {
		return err
	}
	if c.known[rec.Key] {
		return nil
	}
	c.known[rec.Key] = true
	if c.options.Started != nil {
		c.options.Started(call, len(rec.Ops))
	}
	p := &Compiled{Call: call, Operations: len(rec.Ops), buffers: map[*tensor.Buffer]bool{}}
	for i, b := range rec.Buffers {
		if b.Kind == record.Constant || b.Kind.Returned() {
			p.buffers[rec.Bound[i]] = true
		}
	}
	c.programs = append(c.programs, p)
	began := time.Now()
	to := newTarget(c.options.Platform)
	if c.options.GPU != nil {
		to = to.withCuDNN(*c.options.GPU, c.options.Flags)
	}
	m, err := emit(rec.Program, to, c.groups, c.options.Replicas)
	if err != nil {
		return err
	}
	x, err := c.options.Topology.Compile(m.text, pjrt.CompileOptions{
		Replicas: c.options.Replicas, Flags: c.options.Flags, Optional: Flags(c.options.Platform),
	})
	if err != nil {
		return err
	}
	defer x.Close()
	p.Seconds = time.Since(began).Seconds()
	if p.Memory, err = x.Memory(); err != nil {
		return err
	}
	text, err := x.Text()
	if err != nil {
		return err
	}
	p.Collectives, err = hlo.Collectives(text)
	return err
}

// Programs returns the programs in order.
func (c *Compiler) Programs() []*Compiled { return c.programs }

// Peak is the peak of a device's memory in bytes while p runs: the program's, and the buffers that
// only other programs use.
func (c *Compiler) Peak(p *Compiled) int64 {
	all := map[*tensor.Buffer]bool{}
	for _, q := range c.programs {
		maps.Copy(all, q.buffers)
	}
	peak := p.Memory.Peak
	for b := range all {
		if !p.buffers[b] {
			peak += int64(b.Size)
		}
	}
	return peak
}
