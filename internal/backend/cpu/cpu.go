package cpu

import (
	"fmt"
	"math"

	"trireme/tensor"
	"trireme/tensor/compose"
)

// Options configure a Backend.
type Options struct {
	Threads int // 0 is 1
	// Shared is memory that other ranks can read (collective.World.Arena): parameters at
	// rest, gradients and buckets are put there. nil puts everything in private memory.
	Shared *tensor.Arena
	// Reserve is the private address space in bytes to begin with; 0 is 1 TiB, or where the
	// process is limited (ulimit -v) as much as Plan needs, with some more.
	Reserve int
	// Plan is what will be used at most, where it is known: the system then clears that much
	// memory in the background, so that the first step does not wait for it page by page.
	Plan *tensor.Usage
}

// Backend runs operations on the host's processors, in the goroutine that calls them and
// Threads-1 more.
type Backend struct {
	compose.Ops // of composites that are not worth a method here
	pool        *pool
	private     *tensor.Arena
	shared      *tensor.Arena
	meter       tensor.Meter
}

// New starts a backend. Close stops its threads and gives its memory back.
func New(o Options) (*Backend, error) {
	if err := o.reserve(); err != nil {
		return nil, err
	}
	a, err := tensor.Reserve(o.Reserve)
	if err != nil {
		return nil, err
	}
	b := &Backend{pool: newPool(max(1, o.Threads)), private: a, shared: o.Shared}
	b.Ops = compose.NewOps(b)
	if o.Plan != nil {
		b.prefault(*o.Plan)
	}
	return b, nil
}

func (b *Backend) prefault(plan tensor.Usage) {
	private, shared := split(plan, b.shared != nil)
	if b.shared != nil {
		b.shared.Prefault(int(shared))
	}
	b.private.Prefault(int(private))
}

// split is what a plan puts in private memory and in that which peers read.
func split(plan tensor.Usage, peers bool) (private, shared int64) {
	private = plan.PeakTotal
	if !peers {
		return private, 0
	}
	for c := range tensor.NumCategories {
		if forPeers(c) {
			shared += plan.Peak[c]
		}
	}
	return max(0, private-shared), shared
}

// What is reserved of a limited address space beyond the plan: a quarter, and scratch, which the
// plan does not count.
const (
	privateScratch = 128 << 20
	sharedScratch  = 32 << 20
)

// reserve decides how much address space is taken, and maps what is shared.
func (o *Options) reserve() error {
	room, limited := tensor.FreeAddressSpace()
	private, shared := int64(1<<40), int64(math.MaxInt)
	if limited {
		views := int64(1)
		if o.Shared != nil {
			views = int64(o.Shared.Views())
		}
		private, shared = room/2, room/4/views
		if o.Plan != nil {
			private, shared = split(*o.Plan, o.Shared != nil)
			private, shared = private*5/4+privateScratch, shared*5/4+sharedScratch
		}
		if o.Shared == nil {
			shared = 0
		}
		if need := private + shared*views; need > room {
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

// forPeers says whether other ranks read what a category is for.
func forPeers(c tensor.Category) bool {
	return c == tensor.Params || c == tensor.Grads || c == tensor.Buckets
}

// Close stops the threads and gives the private memory back; no tensor of this backend may
// be used after it.
func (b *Backend) Close() error {
	b.pool.close()
	return b.private.Close()
}

// Name is cpu.
func (b *Backend) Name() string { return "cpu" }

// Meter counts the bytes of live tensors.
func (b *Backend) Meter() *tensor.Meter { return &b.meter }

// New makes a tensor in the shared region when other ranks read what it is for.
func (b *Backend) New(cat tensor.Category, dt tensor.DType, shape ...int) *tensor.Tensor {
	n := tensor.Shape(shape).Elems() * dt.Size()
	a := b.private
	if b.shared != nil && forPeers(cat) {
		a = b.shared
	}
	mem := a.Alloc(n)
	b.meter.Add(cat, int64(n))
	buf := tensor.NewBuffer(mem, n, cat, func(buf *tensor.Buffer) {
		b.meter.Add(cat, -int64(buf.Size))
		a.Free(buf.Bytes)
	})
	return tensor.Of(buf, dt, 0, shape...)
}

// Upload copies from the host.
func (b *Backend) Upload(dst *tensor.Tensor, src []byte) {
	d := tensor.HostBytes(dst)
	check(len(d) == len(src), "upload", "%d bytes to %v", len(src), dst)
	copy(d, src)
}

// Download copies to the host.
func (b *Backend) Download(dst []byte, src *tensor.Tensor) {
	s := tensor.HostBytes(src)
	check(len(s) == len(dst), "download", "%v to %d bytes", src, len(dst))
	copy(dst, s)
}

// Sync has nothing to wait for.
func (b *Backend) Sync() {}

// Barrier has nothing to keep apart: operations run as they come.
func (b *Backend) Barrier(...*tensor.Tensor) {}

// check panics with the operation's name when a caller broke its contract.
func check(ok bool, op, format string, args ...any) {
	if !ok {
		panic("cpu: " + op + ": " + fmt.Sprintf(format, args...))
	}
}
