package cpu

import (
	"fmt"
	"math"

	"trireme/internal/kernel"
	"trireme/tensor"
	"trireme/tensor/compose"
)

// Options configure a Backend.
type Options struct {
	Threads int // 0 is 1
	// Float32Parts is the number of bfloat16 parts of a float32 operand of a product (kernel.Parts): 0, 2 or 3.
	Float32Parts int
	// Shared is memory that other ranks map (collective.World.Arena), for parameters, gradients and
	// buckets. nil allocates everything privately.
	Shared *tensor.Arena
	// Reserve is the initial private address space in bytes. 0 is 1 TiB, or if the process is
	// limited (ulimit -v) a bit more than Plan.
	Reserve int
	// Plan is the planned usage, if known. That much memory is committed in the background, so that
	// the first step does not page-fault.
	Plan *tensor.Usage
}

// Backend runs operations in the calling goroutine and Threads-1 workers.
type Backend struct {
	compose.Ops // composites without a native implementation
	pool        *pool
	parts       kernel.Parts // of float32 operands of products
	private     *tensor.Arena
	shared      *tensor.Arena
	meter       tensor.Meter
}

// New starts a backend. Close stops its threads and frees its memory.
func New(o Options) (*Backend, error) {
	if err := o.reserve(); err != nil {
		return nil, err
	}
	a, err := tensor.Reserve(o.Reserve)
	if err != nil {
		return nil, err
	}
	b := &Backend{pool: newPool(max(1, o.Threads)), parts: kernel.Parts(o.Float32Parts), private: a, shared: o.Shared}
	b.Ops = compose.NewOps(b)
	if o.Plan != nil {
		b.prefault(*o.Plan)
	}
	return b, nil
}

func (b *Backend) prefault(plan tensor.Usage) {
	private, shared := splitPlan(plan, b.shared != nil)
	if b.shared != nil {
		b.shared.Prefault(int(shared))
	}
	b.private.Prefault(int(private))
}

// splitPlan is the planned private memory, and the memory shared with peers.
func splitPlan(plan tensor.Usage, peers bool) (private, shared int64) {
	private = plan.PeakTotal - plan.Live[tensor.Checkpoints]
	if !peers {
		return private, 0
	}
	for c := range tensor.NumCategories {
		if isShared(c) {
			shared += plan.Peak[c]
		}
	}
	return max(0, private-shared), shared
}

// Reserved beyond the plan in a limited address space, in addition to a quarter: scratch, which
// plans do not include.
const (
	privateScratch = 128 << 20
	sharedScratch  = 32 << 20
)

// reserve chooses the size of the private region, and maps the shared one.
func (o *Options) reserve() error {
	free, limited := tensor.FreeAddressSpace()
	private, shared := int64(1<<40), int64(math.MaxInt)
	if limited {
		views := int64(1)
		if o.Shared != nil {
			views = int64(o.Shared.Views())
		}
		private, shared = free/2, free/4/views
		if o.Plan != nil {
			private, shared = splitPlan(*o.Plan, o.Shared != nil)
			private, shared = private*5/4+privateScratch, shared*5/4+sharedScratch
		}
		if o.Shared == nil {
			shared = 0
		}
		if need := private + shared*views; need > free {
			return &tensor.AddressSpaceError{Bytes: need, For: "a rank's tensors"}
		}
	}
	if o.Reserve == 0 {
		o.Reserve = int(private)
	}
	if o.Shared == nil {
		return nil
	}
	return o.Shared.Map(int(shared))
}

// isShared reports whether peers read memory of this category.
func isShared(c tensor.Category) bool {
	return c == tensor.Params || c == tensor.Grads || c == tensor.Buckets
}

// Close stops the threads and frees the private memory. No tensor of the backend may be used
// afterwards.
func (b *Backend) Close() error {
	b.pool.close()
	return b.private.Close()
}

// Name is cpu.
func (b *Backend) Name() string { return "cpu" }

// Meter counts live tensors.
func (b *Backend) Meter() *tensor.Meter { return &b.meter }

// New allocates in the shared region if peers read this category.
func (b *Backend) New(cat tensor.Category, dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Shape(shape).Elems() * dt.Size()
	a := b.private
	if b.shared != nil && isShared(cat) {
		a = b.shared
	}
	alloc := a.Alloc
	if cat == tensor.Grads {
		alloc = a.AllocEnd
	}
	mem := alloc(n)
	b.meter.Add(cat, int64(n))
	buf := tensor.NewBuffer(mem, n, cat, func(buf *tensor.Buffer) {
		b.meter.Add(cat, -int64(buf.Size))
		a.Free(buf.Bytes)
	})
	return tensor.Of(buf, dt, 0, shape...)
}

func (b *Backend) Upload(dst *tensor.Tensor, src []byte) {
	d := tensor.HostBytes(dst)
	check(len(d) == len(src), "upload", "%d bytes to %v", len(src), dst)
	copy(d, src)
}

func (b *Backend) Download(dst []byte, src *tensor.Tensor) {
	s := tensor.HostBytes(src)
	check(len(s) == len(dst), "download", "%v to %d bytes", src, len(dst))
	copy(dst, s)
}

// Sync returns at once: operations are synchronous.
func (b *Backend) Sync() {}

// Barrier does nothing: operations are never merged.
func (b *Backend) Barrier(...*tensor.Tensor) {}

// check panics with the operation's name if a caller broke its contract.
func check(ok bool, op, format string, args ...any) {
	if !ok {
		panic("cpu: " + op + ": " + fmt.Sprintf(format, args...))
	}
}
