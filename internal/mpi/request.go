package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"unsafe"
)

// Comm is a communicator of all processes: messages of one do not match those of another.
type Comm struct {
	p *Process
	h handle
}

// Request is a send or a receive in progress.
type Request struct {
	done    chan struct{}
	err     error
	send    bool
	awaited bool
	h       handle
	buf     *Buffer // freed by the thread of MPI when a send is done; a receive's belongs to its caller
	after   func()
}

// Done is closed when the request is complete or canceled, or MPI has failed.
func (r *Request) Done() <-chan struct{} { return r.done }

// Err returns the error of a request that is done.
func (r *Request) Err() error { return r.err }

// Any is the source of a receive from any process.
const Any = -1

// Dup returns a new communicator, when all processes have called it.
func (p *Process) Dup(ctx context.Context) (*Comm, error) {
	c := &Comm{p: p}
	at := mapped(64) // MPI writes it when the request completes
	r := &Request{done: make(chan struct{}), awaited: true, after: func() { c.h = p.lib.get(unsafe.Pointer(&at[0])) }}
	p.start(r, func(req uintptr) error {
		return p.lib.call("MPI_Comm_idup", p.lib.world, uintptr(unsafe.Pointer(&at[0])), req)
	})
	select {
	case <-r.done:
		return c, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Send starts to send b.B, and frees b when it is sent.
func (c *Comm) Send(b *Buffer, to, tag int) *Request {
	r := &Request{done: make(chan struct{}), send: true, awaited: true, buf: b}
	at, n := uintptr(unsafe.Pointer(&b.mem[0])), uintptr(len(b.B))
	c.p.start(r, func(req uintptr) error {
		return c.p.lib.call("MPI_Isend", at, n, c.p.lib.bytes, uintptr(to), uintptr(tag), c.h, req)
	})
	return r
}

// Recv starts to receive a message of up to len(b.B) bytes. Messages have their length in them. background
// is for a receive that no one waits for.
func (c *Comm) Recv(b *Buffer, from, tag int, background bool) *Request {
	if from == Any {
		from = int(c.p.lib.anySource)
	}
	r := &Request{done: make(chan struct{}), awaited: !background}
	at, n := uintptr(unsafe.Pointer(&b.mem[0])), uintptr(len(b.B))
	c.p.start(r, func(req uintptr) error {
		return c.p.lib.call("MPI_Irecv", at, n, c.p.lib.bytes, uintptr(uint32(int32(from))), uintptr(tag), c.h, req)
	})
	return r
}

// Cancel cancels a receive unless it is done, and waits until it is.
func (p *Process) Cancel(r *Request) {
	p.do(func() {
		if slices.Contains(p.active, r) {
			p.lib.set(unsafe.Pointer(&p.slot[0]), r.h)
			_ = p.lib.call("MPI_Cancel", uintptr(unsafe.Pointer(&p.slot[0]))) // then it completes, canceled or not
		}
	})
	<-r.done
}

// start makes a request of MPI. It does not wait for it.
func (p *Process) start(r *Request, begin func(req uintptr) error) {
	p.work <- func() {
		err := p.err
		if err == nil {
			at := unsafe.Pointer(&p.slot[0])
			if err = begin(uintptr(at)); err == nil {
				r.h = p.lib.get(at)
				p.add(r)
				return
			}
		}
		r.err = err
		close(r.done)
	}
}

func (p *Process) add(r *Request) {
	size := int(p.lib.handleSize)
	if need := (len(p.active) + 1) * size; need > len(p.requests) {
		more := mapped(max(4096, 2*len(p.requests))) // the old memory, a few pages, stays mapped
		copy(more, p.requests)
		p.requests, p.indices = more, mapped(4*len(more)/size)
	}
	p.lib.set(unsafe.Pointer(&p.requests[len(p.active)*size]), r.h)
	p.active = append(p.active, r)
	if r.awaited {
		p.awaited++
	}
}

// test completes requests, and reports whether there were any.
func (p *Process) test() bool {
	n := len(p.active)
	if n == 0 {
		return false
	}
	var done int32
	if err := p.lib.call("MPI_Testsome", uintptr(n), uintptr(unsafe.Pointer(&p.requests[0])), uintptr(unsafe.Pointer(&done)),
		uintptr(unsafe.Pointer(&p.indices[0])), p.lib.statusesIgnore); err != nil {
		p.fail(err)
		return true
	}
	if done <= 0 { // none, or MPI_UNDEFINED
		return false
	}
	at := make([]int, 0, done)
	for i := range min(int(done), n) {
		at = append(at, int(int32(binary.NativeEndian.Uint32(p.indices[4*i:]))))
	}
	slices.Sort(at)
	size := int(p.lib.handleSize)
	for _, i := range slices.Backward(at) {
		r, last := p.active[i], len(p.active)-1
		p.active[i] = p.active[last]
		p.active = p.active[:last]
		copy(p.requests[i*size:][:size], p.requests[last*size:][:size])
		p.complete(r, nil)
	}
	return true
}

func (p *Process) complete(r *Request, err error) {
	if r.awaited {
		p.awaited--
	}
	if r.err = err; err == nil {
		if r.after != nil {
			r.after()
		}
		if r.send {
			r.buf.Free()
		}
	}
	close(r.done)
}

// fail ends all requests. MPI may still use their buffers, which are not freed.
func (p *Process) fail(err error) {
	p.err = errors.Join(p.err, err)
	active := p.active
	p.active = nil
	for _, r := range active {
		p.complete(r, p.err)
	}
}
