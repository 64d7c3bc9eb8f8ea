package convert

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// withoutChecksums makes files, and gives the key of the checksums in one of them another name.
func withoutChecksums(make func(*testing.T, string) string, file, key string) func(*testing.T, string) string {
	return func(t *testing.T, dir string) string {
		path := make(t, dir)
		name := filepath.Join(dir, file)
		b, err := os.ReadFile(name)
		if err != nil || bytes.Count(b, []byte(key)) != 1 {
			t.Fatalf("%s has %d keys %s, %v", name, bytes.Count(b, []byte(key)), key, err)
		}
		if err := os.WriteFile(name, bytes.Replace(b, []byte(key), bytes.ToUpper([]byte(key)), 1), 0o644); err != nil {
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
