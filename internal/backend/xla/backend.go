package xla

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"trireme/collective"
	"trireme/internal/backend/record"
	"trireme/internal/pjrt"
	"trireme/tensor"
)

// Host computes outside programs.
type Host interface {
	tensor.Backend
	Close() error
}

// Backend is one rank's device. It is not safe for concurrent use.
type Backend struct {
	*record.Backend
	client *Client
	device *pjrt.Device
	host   Host
	memory *memory
	groups map[string][][]int // rank lists of all groups, by name
	coords map[axisAt]*pjrt.Buffer
	flight []execution // that may still run, oldest first
}

type axisAt struct {
	axis string
	at   int
}

// execution is a program that was started.
type execution struct {
	done    *pjrt.Event
	results []*download
}

// download is a result on its way to the host.
type download struct {
	ready *pjrt.Event // nil once waited for
	bytes []byte
	err   error
}

func (d *download) wait() {
	if d.ready != nil {
		d.err = d.ready.Await()
		d.ready.Close()
		d.ready = nil
	}
}

// inFlight is the limit of programs that run or wait.
const inFlight = 3

// New returns a backend on a device of c. Close closes host.
func New(c *Client, device *pjrt.Device, host Host) *Backend {
	m := &memory{host: host, device: device, buffers: map[*tensor.Buffer]*resident{}}
	return &Backend{
		Backend: record.NewWithMemory(host, m), client: c, device: device, host: host, memory: m,
		groups: map[string][][]int{}, coords: map[axisAt]*pjrt.Buffer{},
	}
}

// Name is the platform: cuda, tpu, or xla for others.
func (b *Backend) Name() string {
	switch p := b.client.client.Platform(); p {
	case "cuda", "tpu":
		return p
	}
	return "xla"
}

// BlockBytes returns tensor.BlockBytes of a platform. On GPUs a block of logits has 512 MiB: with 32 MiB, the
// gradient of the head is read and written so often that a step of llama-1b-4k of trireme bench takes 8% longer (H200).
func BlockBytes(platform string) int {
	switch platform {
	case "cuda", "tpu":
		return 512 << 20
	}
	return tensor.DefaultBlockBytes
}

// BlockBytes is the platform's.
func (b *Backend) BlockBytes() int { return BlockBytes(b.client.client.Platform()) }

// Fill keeps zeros of a buffer without contents as such, so that optimizer state takes no memory of the host.
func (b *Backend) Fill(dst *tensor.Tensor, v float64) {
	if v == 0 && !math.Signbit(v) && b.Alone == nil && !b.Recording() && b.memory.clear(dst.Buffer()) {
		return
	}
	b.Backend.Fill(dst, v)
}

// Async is true, but for devices that are the host's processors.
func (b *Backend) Async() bool { return b.client.client.Platform() != "cpu" }

// World wraps w for tensors of b.
func (b *Backend) World(w collective.World) collective.World {
	return world{b.Backend.World(w), b.groups}
}

// world records the groups that ranks form. Every rank forms all of them, its own or not.
type world struct {
	collective.World
	groups map[string][][]int
}

func (w world) Group(name string, ranks []int) (collective.Group, error) {
	w.groups[name] = append(w.groups[name], ranks)
	return w.World.Group(name, ranks)
}

// PeakBytes is the most memory that was allocated on the device; 0 if the plug-in does not count.
func (b *Backend) PeakBytes() int64 {
	m, err := b.device.Memory()
	if err != nil {
		return 0
	}
	return m.Peak
}

// Compiled lists the programs that the ranks of this process have compiled.
func (b *Backend) Compiled() []tensor.Compilation { return b.client.Compiled() }

// Compile runs f as a program. Results arrive later: an error of the device may be returned by a later
// call or by Close, or be the panic value of a read.
func (b *Backend) Compile(last bool, f func() error) error {
	rec, err := b.Record(last, f)
	if err != nil {
		return err
	}
	x, err := b.client.compile(rec.Program, b.groups)
	if err != nil {
		return err
	}
	for len(b.flight) >= inFlight {
		if err := b.await(); err != nil {
			return err
		}
	}
	return b.execute(x, rec)
}

// await waits for the oldest program and its results, also those that nobody reads.
func (b *Backend) await() error {
	x := b.flight[0]
	b.flight = b.flight[1:]
	defer x.done.Close()
	err := x.done.Await()
	for _, d := range x.results {
		d.wait()
	}
	if err != nil {
		return b.failure(err)
	}
	return nil
}

// failure names the device of an error.
func (b *Backend) failure(err error) error {
	return explain(fmt.Errorf("xla: on device %d: %w", b.device.ID(), err))
}

func (b *Backend) execute(x *program, rec *record.Recording) error {
	args := make([]*pjrt.Buffer, len(x.params))
	var inputs []*pjrt.Buffer // freed once the program has them
	defer func() {
		for _, in := range inputs {
			in.Close()
		}
	}()
	for i, p := range x.params {
		var err error
		switch p.from {
		case ofBuffer:
			args[i], err = b.memory.onDevice(rec.Bound[p.number])
		case ofInput:
			args[i], err = b.device.Upload(p.pjrtType(), p.dims, rec.Inputs[p.number])
			inputs = append(inputs, args[i])
		case ofCoordinate:
			args[i], err = b.coordinate(p.axis, rec.Coordinates[p.axis])
		}
		if err != nil {
			return b.failure(err)
		}
	}
	for i, buf := range rec.Buffers {
		if buf.Kind == record.Output || buf.Kind == record.Scratch {
			b.memory.replace(rec.Bound[i], nil) // its contents are undefined: free them first
		}
	}
	outs, done, err := x.exec.Execute(b.device, args, nil)
	if err != nil {
		return b.failure(err)
	}
	run := execution{done: done}
	defer func() { b.flight = append(b.flight, run) }()
	for i, p := range x.outputs {
		if p.from == ofBuffer {
			b.memory.replace(rec.Bound[p.number], outs[i])
			continue
		}
		d := &download{bytes: make([]byte, outs[i].Size())}
		d.ready, d.err = outs[i].DownloadAsync(d.bytes)
		outs[i].Close() // the download keeps it
		run.results = append(run.results, d)
		rec.SetResult(p.number, func() []byte {
			if d.wait(); d.err != nil {
				panic(b.failure(d.err))
			}
			return d.bytes
		})
	}
	return nil
}

// coordinate is a number on the device.
func (b *Backend) coordinate(axis string, at int) (*pjrt.Buffer, error) {
	key := axisAt{axis, at}
	if b.coords[key] == nil {
		c, err := b.device.Upload(pjrt.S32, nil, binary.LittleEndian.AppendUint32(nil, uint32(at)))
		if err != nil {
			return nil, err
		}
		b.coords[key] = c
	}
	return b.coords[key], nil
}

// Close waits for all programs and frees the memory.
func (b *Backend) Close() (err error) {
	for len(b.flight) > 0 {
		err = errors.Join(err, b.await())
	}
	for buf := range b.memory.buffers {
		b.memory.Free(buf)
	}
	for _, c := range b.coords {
		c.Close()
	}
	return errors.Join(err, b.host.Close())
}
