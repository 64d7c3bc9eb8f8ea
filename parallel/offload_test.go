package parallel_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"trireme/device"
	"trireme/internal/conf"
	"trireme/internal/disk"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

func nvme(dir string) parallel.Offload {
	o := parallel.DefaultOffload()
	o.Optimizer.Device, o.Params.Device = parallel.OffloadNVMe, parallel.OffloadNVMe
	o.Optimizer.SubGroupSize = 1 // rounded up to 2048 elements
	return o.WithDir(dir)
}

var wide = toy{V: 67, D: 48, F: 50, layers: 2, rows: 3}

// TestOffloadSameBits: any offload settings give the losses, norms and parameters of plain training, also
// over skipped steps, and free all memory.
func TestOffloadSameBits(t *testing.T) {
	defer goleak.VerifyNone(t)
	rapid.Check(t, func(rt *rapid.T) {
		c := wide
		c.tied = rapid.Bool().Draw(rt, "tied")
		c.recompute = rapid.Bool().Draw(rt, "recompute")
		if rapid.Bool().Draw(rt, "frozen") {
			c.frozen = map[string]bool{"layer1.down.weight": true, "embed.weight": true}
		}
		c.precision = rapid.SampledFrom([]parallel.Precision{{}, half}).Draw(rt, "precision")
		c.optim = rapid.SampledFrom(groupings).Draw(rt, "optimizers")
		d := setup{
			world: rapid.SampledFrom([]int{1, 2, 4}).Draw(rt, "world"), replicas: 1, steps: 3,
			poison:   rapid.IntRange(-1, 2).Draw(rt, "poison"),
			evaluate: rapid.Bool().Draw(rt, "evaluate"),
		}
		d.accumulation = 4 / d.world
		d.strategy = rapid.SampledFrom([]string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard"}).Draw(rt, "strategy")
		if d.strategy == "hybrid_shard" && d.world > 1 {
			d.replicas = 2
		}
		o := nvme(t.TempDir())
		if rapid.Bool().Draw(rt, "params alone") {
			o.Optimizer.Device = parallel.OffloadCPU
		}
		if !strings.HasPrefix(d.strategy, "full") && !strings.HasPrefix(d.strategy, "hybrid") || rapid.Bool().Draw(rt, "optimizer alone") {
			o.Params.Device = parallel.OffloadNone
		}
		o.Optimizer.SubGroupSize = rapid.SampledFrom([]int{0, 1, 2049, 1 << 30}).Draw(rt, "sub-group")
		d.offload = o
		d.after = func(rank int, b device.Device, _ *parallel.Engine, rest tensor.Usage) {
			if use, rest := resting(b.Meter().Read(), d.world), resting(rest, d.world); use.LiveTotal != rest.LiveTotal || use.Live[tensor.Offloaded] != rest.Live[tensor.Offloaded] {
				rt.Errorf("rank %d: %d live bytes, %d before the first step", rank, use.LiveTotal, rest.LiveTotal)
			}
		}
		drawPolicy(rt, &d)
		want := c.plain(t, d.steps, 4, d.poison)
		got, errs := c.train(t, d)
		if err := errors.Join(errs...); err != nil {
			rt.Fatal(err)
		}
		if diff := differ(got, want); diff != "" {
			rt.Fatalf("%v, %+v: %v", d, o, diff)
		}
	})
}

// TestOffloadMemory: offloaded state takes no memory between steps, and three sub-groups during the
// update.
func TestOffloadMemory(t *testing.T) {
	for _, p := range []parallel.Precision{{}, half} {
		c := wide
		c.precision = p
		d := setup{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 2, poison: -1, offload: nvme(t.TempDir())}
		d.after = func(rank int, b device.Device, _ *parallel.Engine, rest tensor.Usage) {
			_, total := c.flatBytes(t, d.world)
			total /= 2
			want := int64(3 * total)
			if p != (parallel.Precision{}) {
				want += int64(total) / 2
			}
			if got := rest.Live[tensor.Offloaded]; got != want {
				t.Errorf("%d bytes offloaded, want %d", got, want)
			}
			for _, cat := range []tensor.Category{tensor.Params, tensor.Master, tensor.Optimizer} {
				if rest.Live[cat] != 0 {
					t.Errorf("%d bytes of %v in memory between steps", rest.Live[cat], cat)
				}
			}
			const states, groupBytes = 2, 2048 * 4
			if got := b.Meter().Read().Peak[tensor.Optimizer]; got != 3*states*groupBytes {
				t.Errorf("peak of %d bytes of moments, want 3 sub-groups of %d", got, states*groupBytes)
			}
		}
		if _, errs := c.train(t, d); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
	}
}

type failingFile struct {
	*os.File
	op    string
	after int64
	err   error
	n     atomic.Int64
}

func (f *failingFile) ReadAt(p []byte, off int64) (int, error) {
	if f.op == "read" && f.n.Add(1) > f.after {
		return 0, f.err
	}
	return f.File.ReadAt(p, off)
}

func (f *failingFile) WriteAt(p []byte, off int64) (int, error) {
	if f.op == "write" && f.n.Add(1) > f.after {
		return 0, f.err
	}
	return f.File.WriteAt(p, off)
}

// TestOffloadFails: a full or failing disk, or a short read, is an error of the step that names the
// directory, the unit and what to try; the other ranks end too, and nothing keeps running.
func TestOffloadFails(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, fail := range []struct {
		op    string
		err   error
		after int64
	}{{"write", syscall.ENOSPC, 20}, {"write", syscall.EIO, 31}, {"read", syscall.EIO, 0}, {"read", io.EOF, 7}, {"read", syscall.EIO, 40}} {
		d := setup{world: 2, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 5, poison: -1, offload: nvme(t.TempDir())}
		d.files = func(rank int, dir string) (*disk.File, error) {
			f, err := os.CreateTemp(dir, "state")
			if err == nil {
				err = f.Truncate(1 << 22)
			}
			s := &failingFile{File: f, op: fail.op, after: fail.after, err: fail.err}
			if rank == 0 {
				s.op = "nothing"
			}
			return disk.NewFile(s, dir, false), err
		}
		_, errs := wide.train(t, d)
		want := fail.err
		if errors.Is(want, io.EOF) {
			want = io.ErrUnexpectedEOF
		}
		if !errors.Is(errs[1], want) || !strings.Contains(fmt.Sprint(errs[1]), d.offload.Params.Path) || !strings.Contains(fmt.Sprint(errs[1]), "unit ") || !strings.Contains(fmt.Sprint(errs[1]), "try: another path") {
			t.Errorf("%s fails with %v: rank 1 ends with %v", fail.op, fail.err, errs[1])
		}
		if strings.Contains(fmt.Sprint(errs[1]), "\n") {
			t.Errorf("more than a line: %v", errs[1])
		}
		if errs[0] == nil {
			t.Errorf("%s fails with %v: rank 0 continues", fail.op, fail.err)
		}
	}
	d := setup{world: 1, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 1, poison: -1, offload: nvme(t.TempDir())}
	d.files = func(_ int, dir string) (*disk.File, error) { return nil, syscall.EACCES }
	if _, errs := wide.train(t, d); !errors.Is(errs[0], syscall.EACCES) || !strings.Contains(errs[0].Error(), "try: another path") {
		t.Errorf("a file that cannot be created: %v", errs[0])
	}
}

// TestOffloadCheckStrategy: parameters that a strategy does not shard cannot be offloaded.
func TestOffloadCheckStrategy(t *testing.T) {
	for _, s := range []string{"no_shard", "zero_1", "shard_grad_op", "full_shard", "hybrid_shard"} {
		d := setup{world: 1, accumulation: 1, replicas: 1, strategy: s, steps: 1, poison: -1, offload: nvme(t.TempDir())}
		_, errs := wide.train(t, d)
		if whole := s != "full_shard" && s != "hybrid_shard"; whole != (errs[0] != nil) || whole && !strings.Contains(errs[0].Error(), "try: parallel.strategy=full_shard") {
			t.Errorf("%s: %v", s, errs[0])
		}
	}
	o := parallel.DefaultOffload()
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	o.Optimizer.SubGroupSize = -1
	if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), "optimizer.sub_group_size is ") {
		t.Error(err)
	}
	if _, err := conf.Load(parallel.DefaultOffload(), conf.Text("x", "optimizer: {device: disk}")); err == nil {
		t.Error("disk is a device")
	}
}

// TestOffloadOverlaps: while a sub-group is updated, the next is read and the previous one written.
func TestOffloadOverlaps(t *testing.T) {
	w := &watchedFile{third: make(chan struct{})}
	d := setup{world: 1, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 2, poison: -1, offload: nvme(t.TempDir())}
	d.offload.Params.Device = parallel.OffloadNone
	d.files = func(_ int, dir string) (f *disk.File, err error) {
		if w.File, err = os.CreateTemp(dir, "state"); err == nil {
			err = w.Truncate(1 << 22)
		}
		return disk.NewFile(w, dir, false), err
	}
	if _, errs := wide.train(t, d); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if w.late.Load() {
		t.Error("the third sub-group is not read while the first is written")
	}
}

// moments is the number of transfers of a sub-group in each direction.
const moments = 2

// watchedFile is a file whose first write waits for the read of the third sub-group.
type watchedFile struct {
	*os.File
	third         chan struct{} // closed when that read starts
	reads, writes atomic.Int64
	late          atomic.Bool
}

func (w *watchedFile) ReadAt(p []byte, off int64) (int, error) {
	if w.reads.Add(1) == 2*moments+1 {
		close(w.third)
	}
	return w.File.ReadAt(p, off)
}

func (w *watchedFile) WriteAt(p []byte, off int64) (int, error) {
	if w.writes.Add(1) == 1 {
		select {
		case <-w.third:
		case <-time.After(5 * time.Second):
			w.late.Store(true)
		}
	}
	return w.File.WriteAt(p, off)
}

// TestBlocksInSubGroups: block state is offloaded in sub-groups of whole blocks, with the same bits as in
// memory.
func TestBlocksInSubGroups(t *testing.T) {
	c := toy{V: 9, D: 256, F: 700, layers: 1, rows: 3}
	c.optim = optim.Grouping{Optimizer: optim.LowBit{Elementwise: adam.Optimizer.(optim.AdamW), StateDType: tensor.U8}, WeightDecay: 0.1}
	d := setup{world: 1, accumulation: 1, replicas: 1, strategy: "full_shard", steps: 2, poison: -1}
	want, errs := c.train(t, d)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	d.offload = nvme(t.TempDir())
	d.after = func(_ int, b device.Device, _ *parallel.Engine, _ tensor.Usage) {
		// Up to two staging buffers: one updated, one read.
		const elems = 4096 / 4 * tensor.StateBlock
		if got := b.Meter().Read().Peak[tensor.Optimizer]; got == 0 || got%(2*elems+2*elems/tensor.StateBlock*4) != 0 {
			t.Errorf("peak of %d bytes of state: no sub-groups of %d elements", got, elems)
		}
	}
	got, errs := c.train(t, d)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if diff := differ(got, want); diff != "" {
		t.Error(diff)
	}
}
