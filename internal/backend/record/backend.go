package record

import (
	"fmt"
	"reflect"

	"trireme/tensor"
)

// Backend records operations. It is not safe for concurrent use.
type Backend struct {
	inner   tensor.Backend
	meter   tensor.Meter
	buffers map[*tensor.Buffer]*tensor.Buffer // inner buffers of those allocated outside steps
	step    *recorder                         // current step; nil outside
	groups  map[string]*group                 // by name
}

var _ tensor.Backend = (*Backend)(nil)

// New returns a backend around inner, which nothing else may use.
func New(inner tensor.Backend) *Backend {
	return &Backend{inner: inner, buffers: map[*tensor.Buffer]*tensor.Buffer{}, groups: map[string]*group{}}
}

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
		r.buffers[buf] = r.inner.New(cat, dt, shape...).Buffer()
	}
	return tensor.Of(buf, dt, 0, shape...)
}

func (r *Backend) free(buf *tensor.Buffer) {
	r.meter.Add(buf.Cat, -int64(buf.Size))
	switch inner := r.buffers[buf]; {
	case r.step != nil && r.step.allocated[buf]:
		delete(r.step.allocated, buf)
	case r.step != nil:
		fail("Release", "a tensor of %d bytes (%v) was allocated before the step", buf.Size, buf.Cat)
	case inner != nil:
		delete(r.buffers, buf)
		inner.Release()
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
	r.inner.Upload(r.shadow(dst), src)
}

// Download copies to the host. It fails within a step.
func (r *Backend) Download(dst []byte, src *tensor.Tensor) {
	if r.step != nil {
		fail("Download", "the host cannot read %v before the program has run. try: read it after the step", src)
	}
	r.inner.Download(dst, r.shadow(src))
}

// DownloadAsync reads a tensor. Within a step it is a result of the program, available after a run.
func (r *Backend) DownloadAsync(src *tensor.Tensor) func() []byte {
	if r.step == nil {
		return tensor.DownloadAsync(r.inner, r.shadow(src))
	}
	text := new([]byte)
	r.step.results = append(r.step.results, text)
	r.step.add(result, "", "DownloadAsync src", false, src)
	return func() []byte {
		if *text == nil {
			fail("DownloadAsync", "the result was read before the program has run")
		}
		return *text
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
func (r *Backend) shadow(t *tensor.Tensor) *tensor.Tensor {
	if t == nil {
		return nil
	}
	inner := r.buffers[t.Buffer()]
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
	name, _ := parse(signature)
	values := make([]reflect.Value, len(args))
	for i, arg := range args {
		values[i] = reflect.ValueOf(withTensors(arg, r.shadow))
	}
	invoke(r.inner, name, values)
}

// invoke calls a method by name.
func invoke(on any, name string, args []reflect.Value) []reflect.Value {
	m := reflect.ValueOf(on).MethodByName(name)
	if m.Type().IsVariadic() {
		return m.CallSlice(args)
	}
	return m.Call(args)
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
