package objectstore

import (
	"context"
	"io"
	"slices"
	"sync"
)

// headBytes are read when an object is opened: small files, and the headers of others.
const headBytes = 64 << 10

// Object is an object open for reading. Readers that go through it get blocks that are read ahead, in parallel;
// others get the range they ask for, each with a request of its own. If the object is replaced meanwhile, reads fail. It
// is safe for concurrent use.
type Object struct {
	Info Info
	c    *Client
	ctx  context.Context
	head []byte

	own   bool  // its blocks are not dropped for other objects
	first int64 // offset of its first block

	mu    sync.Mutex
	next  int64 // where the last read ended
	run   int   // reads in order
	ahead map[int64]*block
}

// block is bytes of an object that are being read.
type block struct {
	done   chan struct{}
	b      []byte
	err    error
	cancel context.CancelFunc
}

// Open opens an object for reading. ctx ends its requests.
func (c *Client) Open(ctx context.Context, at Path) (*Object, error) {
	b := make([]byte, headBytes)
	n, info, err := c.read(ctx, at, b, 0, "")
	if err != nil && err != io.EOF {
		return nil, err
	}
	return &Object{Info: info, c: c, ctx: ctx, head: b[:n:n], ahead: map[int64]*block{}}, nil
}

// Follow opens the object that Head or List described, without a request, for one reader in order from an offset on, beside
// others: its blocks that are read ahead take up to Memory bytes until Close.
func (c *Client) Follow(ctx context.Context, info Info, from int64) *Object {
	return &Object{Info: info, c: c, ctx: ctx, own: true, first: from, next: from, run: 1, ahead: map[int64]*block{}}
}

// ReadAt reads len(b) bytes at an offset, fewer only with an error.
func (o *Object) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 || off >= o.Info.Size {
		return 0, io.EOF
	}
	short := int64(len(b)) > o.Info.Size-off
	if short {
		b = b[:o.Info.Size-off]
	}
	if off+int64(len(b)) <= int64(len(o.head)) {
		n = copy(b, o.head[off:])
	} else if n, err = o.read(b, off); err != nil {
		return n, err
	}
	if short {
		err = io.EOF
	}
	return n, err
}

func (o *Object) read(b []byte, off int64) (n int, err error) {
	if !o.inOrder(int64(len(b)), off) {
		n, _, err = o.c.read(o.ctx, o.Info.Path, b, off, o.Info.Tag)
		return n, err
	}
	defer o.mu.Unlock()
	size := o.c.o.PartBytes
	if !o.own {
		o.c.reads(o)
	}
	for n < len(b) {
		at := off + int64(n)
		from := at - (at-o.first)%size
		o.drop(from)
		for k := range int64(min(o.run-1, buffers-1)) {
			o.fetch(from + k*size)
		}
		x := o.ahead[from]
		<-x.done
		if x.err != nil {
			delete(o.ahead, from) // a later read tries again
			return n, x.err
		}
		n += copy(b[n:], x.b[at-from:])
	}
	return n, nil
}

// inOrder notes a read and reports whether it is of a reader that goes through the object; then mu is locked.
func (o *Object) inOrder(n, off int64) bool {
	o.mu.Lock()
	size := o.c.o.PartBytes
	// A range that follows the last one, or begins near it, as after a header or between parts of a tensor.
	sequential := off >= o.next && off-o.next <= size
	if o.next = off + n; sequential {
		o.run++
	} else {
		o.run = 0
	}
	if o.run < 2 || n >= buffers*size {
		o.drop(-1)
		o.mu.Unlock()
		return false
	}
	return true
}

// fetch starts to read the block at an offset.
func (o *Object) fetch(from int64) {
	if from >= o.Info.Size || o.ahead[from] != nil {
		return
	}
	ctx, cancel := context.WithCancel(o.ctx)
	x := &block{done: make(chan struct{}), b: make([]byte, min(o.c.o.PartBytes, o.Info.Size-from)), cancel: cancel}
	o.ahead[from] = x
	go func() {
		defer close(x.done)
		defer cancel()
		_, _, x.err = o.c.read(ctx, o.Info.Path, x.b, from, o.Info.Tag)
	}()
}

// maxReading is the number of objects with blocks that were read ahead.
const maxReading = 2

// reads notes that an object is read in order. Another one, read earlier, loses its blocks.
func (c *Client) reads(o *Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = append(slices.DeleteFunc(c.reading, func(x *Object) bool { return x == o }), o)
	if len(c.reading) <= maxReading {
		return
	}
	if old := c.reading[0]; old.mu.TryLock() { // else it is being read now, and keeps them
		old.drop(-1)
		old.mu.Unlock()
	}
	c.reading = slices.Delete(c.reading, 0, 1)
}

// drop forgets the blocks before an offset; -1: all.
func (o *Object) drop(before int64) {
	for from, x := range o.ahead {
		if before < 0 || from < before {
			x.cancel()
			<-x.done
			delete(o.ahead, from)
		}
	}
}

// Close ends reading.
func (o *Object) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(-1)
	return nil
}
