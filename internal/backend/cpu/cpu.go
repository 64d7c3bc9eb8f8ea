package cpu

import (
	"fmt"

	"trireme/tensor"
)

// Options configure a Backend.
type Options struct {
	Threads int // 0 is 1
	// Shared is memory that other ranks can read (collective.World.Arena): parameters at
	// rest, gradients and buckets are put there. nil puts everything in private memory.
	Shared *tensor.Arena
	// Reserve is the private address space in bytes; 0 is 1 TiB.
	Reserve int
	// Plan is what will be used at most, where it is known: the system then clears that much
	// memory in the background, so that the first step does not wait for it page by page.
	Plan *tensor.Usage
}

// Backend runs operations on the host's processors, in the goroutine that calls them and
// Threads-1 more.
type Backend struct {
	pool    *pool
	private *tensor.Arena
	shared  *tensor.Arena
	meter   tensor.Meter
}

// New starts a backend. Close stops its threads and gives its memory back.
func New(o Options) (*Backend, error) {
	if o.Reserve == 0 {
		o.Reserve = 1 << 40
	}
	a, err := tensor.Reserve(o.Reserve)
	if err != nil {
		return nil, err
	}
	b := &Backend{pool: newPool(max(1, o.Threads)), private: a, shared: o.Shared}
	if o.Plan != nil {
		b.prefault(*o.Plan)
	}
	return b, nil
}

func (b *Backend) prefault(plan tensor.Usage) {
	private := plan.PeakTotal
	if b.shared != nil {
		shared := int64(0)
		for c := range tensor.NumCategories {
			if forPeers(c) {
				shared += plan.Peak[c]
			}
		}
		b.shared.Prefault(int(shared))
		private = max(0, private-shared)
	}
	b.private.Prefault(int(private))
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

// check panics with the operation's name when a caller broke its contract.
func check(ok bool, op, format string, args ...any) {
	if !ok {
		panic("cpu: " + op + ": " + fmt.Sprintf(format, args...))
	}
}
