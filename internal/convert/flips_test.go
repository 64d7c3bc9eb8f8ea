package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/collective/collectivetest"
	"trireme/internal/gguf"
	"trireme/tensor"
)

// contents are the tensors of a checkpoint by kind and name.
type contents map[string]contained

type contained struct {
	as   string // type and shape
	data string
}

// subject is a checkpoint whose files are damaged.
type subject struct {
	name string
	make func(t *testing.T, dir string) (path string) // writes files below dir; path is to be opened
	read func(path string) (contents, error)
	// unchecked: the format has no checksum of the tensors' bytes and of their names.
	unchecked bool
}

// TestFlippedBits flips bits of all files of all formats, and cuts files off. The tensors are exact, or the files are
// refused in one line that names them. Formats without checksums may give one changed number or one changed name.
// TRIREME_FLIPS is the number of damages; without it, 2,000.
func TestFlippedBits(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("TRIREME_FLIPS"), "2000"))
	if err != nil {
		t.Fatal("TRIREME_FLIPS: ", err)
	}
	subjects := []subject{
		{"checkpoint, sharded", saved(checkpoint.Sharded), readSource, false},
		{"checkpoint, full", saved(checkpoint.Full), readSource, false},
		{"safetensors", exported(1 << 30), readSource, true},
		{"safetensors with an index", exported(600), readSource, true},
		{"file of torch.save", copied("plain.pt"), readSource, false},
		{"pytorch_model.bin with an index", copied("bin"), readSource, false},
		{"torch.distributed.checkpoint", copied("dcp"), readSource, false},
		{"DeepSpeed ZeRO-2", copied("zero2"), readSource, false},
		{"DeepSpeed ZeRO-3", copied("zero3"), readSource, false},
		{"GGUF", writtenGGUF, readGGUF, true},
	}
	for i, s := range subjects {
		t.Run(s.name, func(t *testing.T) { s.damage(t, n/len(subjects), rand.New(rand.NewPCG(1, uint64(i)))) })
	}
}

// damage damages the files n times, one at a time.
func (s subject) damage(t *testing.T, n int, rng *rand.Rand) {
	dir := t.TempDir()
	path := s.make(t, dir)
	want, err := s.read(path)
	if err != nil || len(want) == 0 {
		t.Fatalf("%d tensors, %v", len(want), err)
	}
	var names []string
	whole := map[string][]byte{}
	if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
			whole[name], err = os.ReadFile(name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	refused, exact, changed := 0, 0, 0
	for i := range n {
		name := names[rng.IntN(len(names))]
		b, at := whole[name], rng.IntN(len(whole[name]))
		cut := i%10 == 9
		what := fmt.Sprintf("bit %d of byte %d of %s", i%8, at, name)
		if cut {
			what = fmt.Sprintf("%s cut off at byte %d of %d", name, at, len(b))
			err = os.Truncate(name, int64(at))
		} else {
			err = writeAt(name, []byte{b[at] ^ 1<<(i%8)}, at)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.readBounded(t, path, what)
		switch {
		case err != nil:
			refused++
			if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, filepath.Base(path)) && !strings.Contains(text, filepath.Base(name)) {
				t.Errorf("%s: the error names no file, or has several lines: %q", what, text)
			}
		case equalContents(got, want):
			exact++
		case s.unchecked && !cut && oneChange(got, want):
			changed++
		default:
			t.Errorf("%s: other tensors", what)
		}
		if err := writeAt(name, b[at:], at); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d damages: %d refused, %d without effect, %d changed one number or name", n, refused, exact, changed)
}

func writeAt(name string, b []byte, at int) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, int64(at))
	return errors.Join(err, f.Close())
}

// readBounded fails if reading panics or allocates much more than the files have.
func (s subject) readBounded(t *testing.T, path, what string) (contents, error) {
	const most = 8 << 20
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s: a panic: %v", what, p)
		}
	}()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	got, err := s.read(path)
	metrics.Read(sample)
	if n := sample[0].Value.Uint64() - before; n > most {
		t.Fatalf("%s: %d bytes were allocated", what, n)
	}
	return got, err
}

func equalContents(a, b contents) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// oneChange reports whether one tensor has another name, or other bits in one number (of a block that has one
// scale in GGUF).
func oneChange(got, want contents) bool {
	if len(got) != len(want) {
		return false
	}
	var was, is []string
	for k, v := range want {
		if got[k] != v {
			was = append(was, k)
		}
	}
	for k, v := range got {
		if want[k] != v {
			is = append(is, k)
		}
	}
	if len(was) != 1 || len(is) != 1 {
		return false
	}
	a, b := want[was[0]], got[is[0]]
	if was[0] != is[0] {
		return a == b
	}
	return a.as == b.as && len(a.data) == len(b.data) && (flipped(a.data, b.data) == 1 || strings.HasPrefix(a.as, "GGUF") && apart(a.data, b.data) <= 32*4)
}

// flipped counts the bits that differ.
func flipped(a, b string) (n int) {
	for i := range len(a) {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// apart is the number of bytes from the first that differs to the last.
func apart(a, b string) int {
	lo, hi := len(a), 0
	for i := range len(a) {
		if a[i] != b[i] {
			lo, hi = min(lo, i), i+1
		}
	}
	return hi - lo
}

// readSource reads a source of this package.
func readSource(path string) (contents, error) {
	s, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all := contents{}
	for _, x := range s.Tensors {
		b := make([]byte, x.Bytes())
		if err := x.Read(0, x.Shape.Elems(), b); err != nil {
			return nil, err
		}
		all[x.Kind+" "+x.Name] = contained{fmt.Sprint(x.Type, x.Shape), string(b)}
	}
	return all, nil
}

func readGGUF(path string) (contents, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := contents{}
	for _, x := range f.Tensors() {
		v, err := f.Read(x.Name)
		if err != nil {
			return nil, err
		}
		all[x.Name] = contained{fmt.Sprint("GGUF ", x.Type, x.Shape), string(tensor.AsBytes(v))}
	}
	return all, nil
}

// copied copies a fixture.
func copied(fixture string) func(*testing.T, string) string {
	return func(t *testing.T, dir string) string {
		from, to := filepath.Join("testdata", fixture), filepath.Join(dir, fixture)
		st, err := os.Stat(from)
		if err == nil && st.IsDir() {
			err = os.CopyFS(to, os.DirFS(from))
		} else if err == nil {
			var b []byte
			if b, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
}

// someTensors are tensors of several types and sizes with random bits.
func someTensors() (shards []tensor.Shard) {
	rng := rand.New(rand.NewPCG(2, 2))
	for i, dt := range []tensor.DType{tensor.F32, tensor.BF16, tensor.F16, tensor.F32} {
		shape := tensor.Shape{8, 5 + 4*i}
		b := make([]byte, shape.Elems()*dt.Size())
		for k := range b {
			b[k] = byte(rng.Uint32()) &^ 0x40
		}
		data := tensor.Of(tensor.NewBuffer(b, len(b), tensor.Params, nil), dt, 0, shape.Elems())
		shards = append(shards, tensor.Shard{Name: fmt.Sprintf("layers.%d.weight", i), DType: dt, Shape: shape, Box: tensor.FullBox(shape), Data: data})
	}
	return shards
}

// saved saves a checkpoint of two ranks that have half of each tensor.
func saved(layout string) func(*testing.T, string) string {
	return func(t *testing.T, dir string) (path string) {
		const ranks = 2
		meet := collectivetest.NewBootstrap(ranks)
		var all sync.WaitGroup
		for rank := range ranks {
			all.Go(func() {
				s, err := checkpoint.NewStore(dir, "a-run", checkpoint.Config{StateDictType: layout}, meet.Rank(rank), nil)
				if err != nil {
					t.Error(err)
					return
				}
				var items []checkpoint.Item
				for i, x := range someTensors() {
					half := x.Box.Sizes[0] / ranks
					x.Box = x.Box.Slice(0, rank*half, (rank+1)*half)
					x.Data = x.Data.Flat(rank*x.Box.Elems(), (rank+1)*x.Box.Elems())
					items = append(items, checkpoint.Item{Kind: []string{checkpoint.Param, "exp_avg"}[i%2], Shard: x})
				}
				saved, err := s.Save(t.Context(), checkpoint.Meta{Step: 3, State: []byte(`{"step": 3}`)}, items)
				if err != nil {
					t.Error(err)
				} else if rank == 0 {
					path = saved.Path
				}
			})
		}
		all.Wait()
		return path
	}
}

// exported writes safetensors files of up to some bytes.
func exported(most int64) func(*testing.T, string) string {
	return func(t *testing.T, dir string) string {
		path := filepath.Join(dir, "model")
		shards := someTensors()
		var entries []safetensors.Entry
		for _, s := range shards {
			entries = append(entries, safetensors.Entry{Name: s.Name, DType: s.DType, Shape: s.Shape})
		}
		if err := checkpoint.Export(t.Context(), path, entries, shards, checkpoint.SingleProcess{}, checkpoint.ExportOptions{MaxShardSize: most}); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// writtenGGUF writes tensors of all types that are written, whose sizes are multiples of the alignment.
func writtenGGUF(t *testing.T, dir string) string {
	path := filepath.Join(dir, "model.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []gguf.Tensor
	for i, as := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0} {
		tensors = append(tensors, gguf.Tensor{Info: gguf.Info{Name: fmt.Sprintf("blk.%d.weight", i), Type: as, Shape: []int{16, 32}}, Read: func(first int64, dst []float32) error {
			for k := range dst {
				dst[k] = float32(int(first)+k)/64 - 3.3
			}
			return nil
		}})
	}
	metadata := []gguf.KV{{Key: "general.architecture", Value: "llama"}, {Key: "llama.block_count", Value: uint32(4)}, {Key: "tokens", Value: []string{"a", "b"}}}
	if err := gguf.Write(f, metadata, tensors); err != nil {
		t.Fatal(err)
	}
	return path
}
