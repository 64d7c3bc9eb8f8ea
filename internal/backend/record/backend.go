package record

import (
	"crypto/sha256"
	"fmt"
	"reflect"

	"trireme/tensor"
)

// Backend records operations. It is not safe for concurrent use.
type Backend struct {
	inner      tensor.Backend
	meter      tensor.Meter
	memory     Memory
	step       *recorder         // current step; nil outside
	groups     map[string]*group // by name
	programs   map[[sha256.Size]byte]*Program
	signatures signatures
	// Alone runs each operation outside steps, such as by recording it as a program. Nil runs it on
	// the inner backend.
	Alone func(operation func() error) error
}

// Memory has the inner backend's buffers of those allocated outside steps.
type Memory interface {
	New(buf *tensor.Buffer, dt tensor.DType)
	Free(buf *tensor.Buffer)
	// Inner is the inner buffer, for an operation that reads it, and writes it if write is true. It is
	// nil if buf is not from New.
	Inner(buf *tensor.Buffer, write bool) *tensor.Buffer
}

var _ tensor.Backend = (*Backend)(nil)

// New returns a backend around inner, which nothing else may use.
func New(inner tensor.Backend) *Backend {
	return NewWithMemory(inner, &pairs{inner, map[*tensor.Buffer]*tensor.Buffer{}})
}

// NewWithMemory is New with a Memory of inner.
func NewWithMemory(inner tensor.Backend, memory Memory) *Backend {
	return &Backend{inner: inner, memory: memory, groups: map[string]*group{}, programs: map[[sha256.Size]byte]*Program{}, signatures: signatures{}}
}

// pairs allocates an inner buffer for each.
type pairs struct {
	inner   tensor.Backend
	buffers map[*tensor.Buffer]*tensor.Buffer
}

func (p *pairs) New(buf *tensor.Buffer, dt tensor.DType) {
	p.buffers[buf] = p.inner.New(buf.Cat, dt, buf.Size/dt.Size()).Buffer()
}

func (p *pairs) Free(buf *tensor.Buffer) {
	if inner := p.buffers[buf]; inner != nil {
		delete(p.buffers, buf)
		inner.Release()
	}
}

func (p *pairs) Inner(buf *tensor.Buffer, _ bool) *tensor.Buffer { return p.buffers[buf] }

// Error reports an operation that cannot be recorded.
type Error struct {
	Op  string
	Why string
}

func (e *Error) Error() string { return "record: " + e.Op + " within a step: " + e.Why }

// fail panics with an Error; Record returns it.
func fail(op, why string, args ...any) { panic(&Error{op, fmt.Sprintf(why, args...)}) }

// Name is record.
func (r *Backend) Name() string { return "record" }

// Static is true: programs have fixed shapes.
func (r *Backend) Static() bool { return true }

// Meter counts live tensors.
func (r *Backend) Meter() *tensor.Meter { return &r.meter }

// New allocates a tensor outside host memory; within a step without storage.
func (r *Backend) New(cat tensor.Category, dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Shape(shape).Elems() * dt.Size()
	buf := tensor.NewBuffer(nil, n, cat, r.free)
	r.meter.Add(cat, int64(n))
	if r.step != nil {
		r.step.allocated[buf] = true
	} else {
		r.memory.New(buf, dt)
	}
	return tensor.Of(buf, dt, 0, shape...)
}

func (r *Backend) free(buf *tensor.Buffer) {
	r.meter.Add(buf.Cat, -int64(buf.Size))
	switch {
	case r.step != nil && r.step.allocated[buf]:
		delete(r.step.allocated, buf)
	case r.step != nil:
		fail("Release", "a tensor of %d bytes (%v) was allocated before the step", buf.Size, buf.Cat)
	default:
		r.memory.Free(buf)
	}
}

// Upload copies from the host. Within a step it is an input of the program.
func (r *Backend) Upload(dst *tensor.Tensor, src []byte) {
	if len(src) != dst.Bytes() {
		panic(fmt.Sprintf("record: upload of %d bytes to %v", len(src), dst))
	}
	if r.step != nil {
		r.step.inputs = append(r.step.inputs, append([]byte(nil), src...))
		r.step.add(upload, "", "Upload dst=", false, dst)
		return
	}
	r.inner.Upload(r.shadow(dst, true), src)
}

// Download copies to the host. It fails within a step.
func (r *Backend) Download(dst []byte, src *tensor.Tensor) {
	if r.step != nil {
		fail("Download", "the host cannot read %v before the program has run. try: read it after the step", src)
	}
	r.inner.Download(dst, r.shadow(src, false))
}

// DownloadAsync reads a tensor. Within a step it is a result of the program, available after a run.
func (r *Backend) DownloadAsync(src *tensor.Tensor) func() []byte {
	if r.step == nil {
		return tensor.DownloadAsync(r.inner, r.shadow(src, false))
	}
	wait := new(func() []byte)
	r.step.results = append(r.step.results, wait)
	r.step.add(result, "", "DownloadAsync src", false, src)
	return func() []byte {
		if *wait == nil {
			fail("DownloadAsync", "the result was read before the program has run")
		}
		return (*wait)()
	}
}

// Sync waits. It fails within a step.
func (r *Backend) Sync() {
	if r.step != nil {
		fail("Sync", "the host cannot wait for the program, as offload and activation_checkpointing.store do. try: device: none, store: memory")
	}
	r.inner.Sync()
}

// shadow is the inner backend's tensor for one allocated outside steps.
func (r *Backend) shadow(t *tensor.Tensor, write bool) *tensor.Tensor {
	if t == nil {
		return nil
	}
	inner := r.memory.Inner(t.Buffer(), write)
	if inner == nil {
		panic(fmt.Sprintf("record: %v was allocated in an earlier step, or by another backend", t))
	}
	return tensor.Strided(inner, t.DType(), t.Offset(), t.RowStride(), t.Shape()...)
}

// do runs or records an operation. signature is its name and parameters, marked = for Out, + for
// InOut and ? for Acc.
func (r *Backend) do(signature string, accumulate bool, args ...any) {
	if r.step != nil {
		r.step.add(operation, "", signature, accumulate, args...)
		return
	}
	if r.Alone != nil {
		err := r.Alone(func() error {
			r.step.add(operation, "", signature, accumulate, args...)
			return nil
		})
		if err != nil {
			panic(err)
		}
		return
	}
	name, values := r.shadows(signature, args)
	calls[name](r.inner, values)
}

// Recording reports whether a step is being recorded.
func (r *Backend) Recording() bool { return r.step != nil }

// shadows are the inner backend's arguments of an operation outside steps.
func (r *Backend) shadows(signature string, args []any) (name string, values []any) {
	name, params := r.signatures.parse(signature)
	for i, arg := range args {
		write := params[i].mark != 0 && name != barrier
		values = append(values, withTensors(arg, func(t *tensor.Tensor) *tensor.Tensor { return r.shadow(t, write) }))
	}
	return name, values
}

var tensorType = reflect.TypeFor[*tensor.Tensor]()

// withTensors is arg with f applied to each tensor in it: arg itself, elements of a slice or fields
// of a struct.
func withTensors(arg any, f func(*tensor.Tensor) *tensor.Tensor) any {
	switch a := arg.(type) {
	case *tensor.Tensor:
		return f(a)
	case []*tensor.Tensor:
		out := make([]*tensor.Tensor, len(a))
		for i, t := range a {
			out[i] = f(t)
		}
		return out
	}
	v := reflect.ValueOf(arg)
	if v.Kind() != reflect.Struct {
		return arg
	}
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	for i := range v.NumField() {
		if field := v.Field(i); field.Type() == tensorType {
			out.Field(i).Set(reflect.ValueOf(f(field.Interface().(*tensor.Tensor))))
		}
	}
	return out.Interface()
}
