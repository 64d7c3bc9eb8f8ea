package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// faultFS is an in-memory file system with injected failures and power loss. Bytes are durable
// after Sync of their file, names after SyncDir of their directory. Power loss keeps any subset of
// unsynced writes, possibly torn, and the unsynced name changes of a directory up to any point.
type faultFS struct {
	mu    sync.Mutex
	root  *node
	calls int
	open  int // handles

	failAt   int    // the call that fails, 0 for none
	forGood  bool   // and all later calls that failing matches
	failing  string // kinds of calls that fail; empty for all
	failure  error
	powerAt  int  // the call at which power is cut
	powerEnd bool // after the call, not before
	dead     bool
}

type node struct {
	dir     bool
	entries map[string]*node
	stable  map[string]*node   // entries on disk
	log     []map[string]*node // changes of entries since; nil removes
	data    []byte
	synced  []byte // data on disk
	writes  []change
}

// change is a write, or with nil data a truncation, at off.
type change struct {
	off  int64
	data []byte
}

func (c change) apply(b []byte) []byte {
	end := c.off + int64(len(c.data))
	for int64(len(b)) < end {
		b = append(b, 0)
	}
	if c.data == nil {
		return b[:c.off]
	}
	copy(b[c.off:], c.data)
	return b
}

func newDir() *node {
	return &node{dir: true, entries: map[string]*node{}, stable: map[string]*node{}}
}

func newFaultFS() *faultFS { return &faultFS{root: newDir()} }

// call counts a call and reports whether it fails. done runs after it.
func (x *faultFS) call(kind, path string) (done func(), err error) {
	x.mu.Lock()
	x.calls++
	switch {
	case x.dead:
		x.mu.Unlock()
		panic(errPower)
	case x.calls == x.powerAt:
		x.dead = true
		if !x.powerEnd {
			x.mu.Unlock()
			panic(errPower)
		}
		return func() { x.mu.Unlock(); panic(errPower) }, nil
	case x.failAt > 0 && (x.calls == x.failAt || x.forGood && x.calls > x.failAt) && (x.failing == "" || strings.Contains(x.failing, kind)):
		x.mu.Unlock()
		return nil, &fs.PathError{Op: kind, Path: path, Err: x.failure}
	}
	return x.mu.Unlock, nil
}

func (x *faultFS) find(path string) *node {
	n := x.root
	for p := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if n == nil || !n.dir {
			return nil
		}
		if p != "" && p != "." {
			n = n.entries[p]
		}
	}
	return n
}

func (n *node) change(ops map[string]*node) {
	for name, to := range ops {
		if to == nil {
			delete(n.entries, name)
		} else {
			n.entries[name] = to
		}
	}
	n.log = append(n.log, ops)
}

func missing(op, path string) error { return &fs.PathError{Op: op, Path: path, Err: syscall.ENOENT} }

func (x *faultFS) MkdirAll(path string) error {
	done, err := x.call("mkdir", path)
	if err != nil {
		return err
	}
	defer done()
	n := x.root
	for p := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if n.entries[p] == nil {
			n.change(map[string]*node{p: newDir()})
		}
		n = n.entries[p]
	}
	return nil
}

func (x *faultFS) Create(path string) (file, error) {
	done, err := x.call("create", path)
	if err != nil {
		return nil, err
	}
	defer done()
	dir := x.find(filepath.Dir(path))
	if dir == nil {
		return nil, missing("create", path)
	}
	n := dir.entries[filepath.Base(path)]
	if n == nil {
		n = &node{}
		dir.change(map[string]*node{filepath.Base(path): n})
	}
	x.open++
	return &handle{x, n, path}, nil
}

func (x *faultFS) Open(path string) (file, error) {
	done, err := x.call("open", path)
	if err != nil {
		return nil, err
	}
	defer done()
	n := x.find(path)
	if n == nil || n.dir {
		return nil, missing("open", path)
	}
	x.open++
	return &handle{x, n, path}, nil
}

func (x *faultFS) ReadDir(path string) ([]string, error) {
	done, err := x.call("readdir", path)
	if err != nil {
		return nil, err
	}
	defer done()
	n := x.find(path)
	if n == nil || !n.dir {
		return nil, missing("readdir", path)
	}
	return slices.Sorted(maps.Keys(n.entries)), nil
}

func (x *faultFS) Rename(from, to string) error {
	done, err := x.call("rename", from)
	if err != nil {
		return err
	}
	defer done()
	dir := x.find(filepath.Dir(from))
	if filepath.Dir(from) != filepath.Dir(to) {
		panic("a rename to another directory")
	}
	if dir == nil || dir.entries[filepath.Base(from)] == nil {
		return missing("rename", from)
	}
	if old := dir.entries[filepath.Base(to)]; old != nil && old.dir && len(old.entries) > 0 {
		return &fs.PathError{Op: "rename", Path: to, Err: syscall.ENOTEMPTY}
	}
	dir.change(map[string]*node{filepath.Base(from): nil, filepath.Base(to): dir.entries[filepath.Base(from)]})
	return nil
}

func (x *faultFS) RemoveAll(path string) error {
	done, err := x.call("remove", path)
	if err != nil {
		return err
	}
	defer done()
	n := x.find(path)
	if n == nil {
		return nil
	}
	n.empty()
	x.find(filepath.Dir(path)).change(map[string]*node{filepath.Base(path): nil})
	return nil
}

func (n *node) empty() {
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		n.entries[name].empty()
		n.change(map[string]*node{name: nil})
	}
}

// Modified is zero: an unknown time.
func (x *faultFS) Modified(path string) (time.Time, error) { return time.Time{}, nil }

func (x *faultFS) SyncDir(path string) error {
	done, err := x.call("syncdir", path)
	if err != nil {
		return err
	}
	defer done()
	n := x.find(path)
	if n == nil {
		return missing("syncdir", path)
	}
	n.stable, n.log = maps.Clone(n.entries), nil
	return nil
}

type handle struct {
	fs   *faultFS
	n    *node
	path string
}

func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	done, err := h.fs.call("read", h.path)
	if err != nil {
		return 0, err
	}
	defer done()
	if off > int64(len(h.n.data)) {
		return 0, io.EOF
	}
	if k := copy(b, h.n.data[off:]); k < len(b) {
		return k, io.EOF
	}
	return len(b), nil
}

func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	done, err := h.fs.call("write", h.path)
	if err != nil {
		return 0, err
	}
	defer done()
	h.add(change{off, append([]byte{}, b...)})
	return len(b), nil
}

func (h *handle) Truncate(size int64) error {
	done, err := h.fs.call("truncate", h.path)
	if err != nil {
		return err
	}
	defer done()
	h.add(change{size, nil})
	return nil
}

func (h *handle) add(c change) {
	h.n.data = c.apply(h.n.data)
	h.n.writes = append(h.n.writes, c)
}

func (h *handle) Size() (int64, error) {
	done, err := h.fs.call("size", h.path)
	if err != nil {
		return 0, err
	}
	defer done()
	return int64(len(h.n.data)), nil
}

func (h *handle) Sync() error {
	done, err := h.fs.call("sync", h.path)
	if err != nil {
		return err
	}
	defer done()
	h.n.synced, h.n.writes = slices.Clone(h.n.data), nil
	return nil
}

// Close releases the handle even if it fails, as close(2) does.
func (h *handle) Close() error {
	done, err := h.fs.call("close", h.path)
	if err != nil {
		h.fs.mu.Lock()
		defer h.fs.mu.Unlock()
	} else {
		defer done()
	}
	h.fs.open--
	return err
}

// Effects of power loss on unsynced changes.
const (
	loseAll = iota
	keepAll
	loseSome
)

// afterPowerLoss returns the disk after power loss.
func (x *faultFS) afterPowerLoss(rng *rand.Rand, how int) *faultFS {
	x.mu.Lock()
	defer x.mu.Unlock()
	return &faultFS{root: x.root.survive(rng, how)}
}

func (n *node) survive(rng *rand.Rand, how int) *node {
	if !n.dir {
		b := slices.Clone(n.synced)
		for _, w := range n.writes {
			switch {
			case how == keepAll || how == loseSome && rng.IntN(3) == 0:
				b = w.apply(b)
			case how == loseSome && len(w.data) > 1 && rng.IntN(2) == 0:
				b = change{w.off, w.data[:1+rng.IntN(len(w.data)-1)]}.apply(b)
			}
		}
		return &node{data: b, synced: slices.Clone(b)}
	}
	entries := maps.Clone(n.stable)
	keep := 0
	switch how {
	case keepAll:
		keep = len(n.log)
	case loseSome:
		keep = rng.IntN(len(n.log) + 1)
	}
	for _, ops := range n.log[:keep] {
		for name, to := range ops {
			if to == nil {
				delete(entries, name)
			} else {
				entries[name] = to
			}
		}
	}
	out := newDir()
	for _, name := range slices.Sorted(maps.Keys(entries)) { // ordered, to replay a seed
		out.entries[name] = entries[name].survive(rng, how)
	}
	out.stable = maps.Clone(out.entries)
	return out
}

// tree lists all paths, for messages.
func (x *faultFS) tree() string {
	var b strings.Builder
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		for _, name := range slices.Sorted(maps.Keys(n.entries)) {
			fmt.Fprintf(&b, "%s/%s (%d)\n", path, name, len(n.entries[name].data))
			walk(n.entries[name], path+"/"+name)
		}
	}
	walk(x.root, "")
	return b.String()
}

var errInjected = errors.New("injected failure")
