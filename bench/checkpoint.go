package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/device"
	"trireme/model"
	"trireme/model/llama"
	"trireme/nn"
	"trireme/tensor"
	"trireme/train"
)

// checkpoint compares saving and loading a checkpoint with dd in the same directory, training beside saves with training
// alone, and loading a model's files with safetensors in PyTorch.
func (h *harness) checkpoint(ctx context.Context) error {
	if _, err := exec.LookPath("dd"); err != nil {
		fmt.Fprintf(h.out, "\nSKIPPED: %v\n", err)
	} else if err := h.states(ctx); err != nil {
		return err
	}
	if err := h.background(ctx); err != nil {
		return err
	}
	return h.modelFiles(ctx)
}

// states compares checkpoints with dd.
func (h *harness) states(ctx context.Context) error {
	s, err := newState(h.mib)
	if err != nil {
		return err
	}
	defer s.backend.Close()
	for i, it := range s.items {
		random(tensor.HostBytes(it.Data), uint64(i))
	}
	dir, plain := filepath.Join(h.dir, "state"), filepath.Join(h.dir, "plain")
	saved := filepath.Join(dir, "checkpoints", "step-0")
	store, err := checkpoint.NewStore(dir, "bench", checkpoint.Config{}, checkpoint.SingleProcess{}, nil)
	if err != nil {
		return err
	}
	save := func(ctx context.Context) (object, error) {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		began := time.Now()
		_, err := store.Save(ctx, checkpoint.Meta{}, s.items)
		return h.speed(began), err
	}
	write := func(ctx context.Context) (object, error) {
		if err := os.RemoveAll(plain); err != nil {
			return nil, err
		}
		return h.dd(ctx, "if=/dev/zero", "of="+plain, fmt.Sprintf("count=%d", h.mib/ddMiB), "conv=fsync")
	}
	load := func(ctx context.Context) (object, error) { return h.load(ctx, saved, s.items) }
	read := func(ctx context.Context) (object, error) { return h.dd(ctx, "if="+plain, "of=/dev/null") }
	t := &table{Title: fmt.Sprintf("Checkpoint of %d MiB, MB per second", h.mib), OurName: "trireme", TheirName: "dd", Comparison: "checkpoint"}
	return h.table(t, func(t *table) error {
		if err := h.speeds(ctx, t, "save, synced", save, write); err != nil {
			return err
		}
		return h.fromDisk(ctx, t, "load", load, read, filepath.Join(saved, "rank-00000.safetensors"), plain)
	})
}

// modelFiles compares loading a model for generation.
func (h *harness) modelFiles(ctx context.Context) error {
	dir := filepath.Join(h.dir, "model")
	config := fmt.Appendf(nil, modelConfig, max(1, h.mib/25))
	size, err := writeModel(dir, config, func(data []byte, _ *nn.Param, seed uint64) { random(data, seed) })
	if err != nil {
		return err
	}
	t := &table{Title: fmt.Sprintf("Model of %d MB in bfloat16, MB of the file per second", size/1e6), OurName: "trireme", TheirName: "safetensors in PyTorch", Comparison: "checkpoint"}
	mb := float64(size) / 1e6
	return h.table(t, func(t *table) error {
		for _, as := range []train.WeightType{train.BFloat16, train.Float32} {
			ours := func(context.Context) (object, error) {
				began := time.Now()
				m, err := train.LoadModel(model.Registry{llama.Family}, dir, device.DefaultConfig(), as)
				if err != nil {
					return nil, err
				}
				seconds := time.Since(began).Seconds()
				return object{"mb_per_s": mb / seconds}, m.Close()
			}
			theirs := func(ctx context.Context) (object, error) {
				o, err := h.peer.run("auto", "", "load", "--model", filepath.Join(dir, safetensors.ModelFile), "--dtype", string(as), "--memory", strconv.Itoa(h.used()))(ctx)
				if err != nil {
					return nil, err
				}
				seconds, err := number(o, "seconds")
				return object{"mb_per_s": mb / seconds}, err
			}
			if err := h.fromDisk(ctx, t, "into "+string(as), ours, theirs, filepath.Join(dir, safetensors.ModelFile)); err != nil {
				return err
			}
		}
		return nil
	})
}

// fromDisk compares reading files that are in memory and, where the system can drop them, files that are not.
func (h *harness) fromDisk(ctx context.Context, t *table, what string, ours, theirs measurement, files ...string) error {
	if err := h.speeds(ctx, t, what+", from memory", ours, theirs); err != nil {
		return err
	}
	after := func(m measurement) measurement {
		return func(ctx context.Context) (object, error) {
			for _, f := range files {
				if err := dropCache(f); err != nil {
					return nil, err
				}
			}
			return m(ctx)
		}
	}
	if !canDropCache {
		t.Notes = append(t.Notes, what+", from disk: not measured, this system cannot drop a file from memory.")
		return nil
	}
	return h.speeds(ctx, t, what+", from disk", after(ours), after(theirs))
}

// speeds adds a row of MB per second.
func (h *harness) speeds(ctx context.Context, t *table, what string, ours, theirs measurement) error {
	after := func(m measurement) measurement {
		return func(ctx context.Context) (object, error) {
			if err := useMemory(h.used()); err != nil {
				return nil, err
			}
			return m(ctx)
		}
	}
	pairs, err := h.alternate(ctx, t.Title+": "+what, after(ours), after(theirs))
	if err != nil {
		return err
	}
	r, err := t.row(what, pairs, "mb_per_s")
	if err != nil {
		return err
	}
	return h.add(t, r)
}

// used is the number of bytes that are touched before each run: pages of a file, and its numbers in float32 or in a copy.
func (h *harness) used() int { return 4 * h.mib << 20 }

func (h *harness) speed(began time.Time) object {
	return object{"mb_per_s": float64(h.mib) * (1 << 20) / 1e6 / time.Since(began).Seconds()}
}

const ddMiB = 8 // block of dd

func (h *harness) dd(ctx context.Context, args ...string) (object, error) {
	c := command(ctx, "dd", append(args, fmt.Sprintf("bs=%d", ddMiB<<20))...)
	began := time.Now()
	if _, err := output(c); err != nil {
		return nil, fmt.Errorf("dd: %w", err)
	}
	return h.speed(began), nil
}

// load loads a checkpoint into memory that is not yet touched, and compares it with want.
func (h *harness) load(ctx context.Context, dir string, want []checkpoint.Item) (object, error) {
	s, err := newState(h.mib)
	if err != nil {
		return nil, err
	}
	defer s.backend.Close()
	began := time.Now()
	c, err := checkpoint.Open(dir)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Load(ctx, s.items, checkpoint.LoadOptions{}); err != nil {
		return nil, err
	}
	o := h.speed(began)
	for i, it := range s.items {
		if !bytes.Equal(tensor.HostBytes(it.Data), tensor.HostBytes(want[i].Data)) {
			return nil, fmt.Errorf("%s of %s has other bytes than were saved", it.Name, dir)
		}
	}
	return o, nil
}

// state is tensors to save and load.
type state struct {
	backend device.Device
	items   []checkpoint.Item
}

// newState is mib MiB of float32 in 16 tensors.
func newState(mib int) (*state, error) {
	b, err := device.Open("cpu", device.Options{Reserve: (mib + 64) << 20})
	if err != nil {
		return nil, err
	}
	s := &state{backend: b}
	const tensors = 16
	shape := tensor.Shape{mib << 8 / tensors, 1 << 10}
	for i := range tensors {
		data := b.New(tensor.Params, tensor.F32, shape...)
		s.items = append(s.items, checkpoint.Item{Kind: checkpoint.Param, Shard: tensor.Shard{
			Name: fmt.Sprintf("layers.%d.weight", i), DType: tensor.F32, Shape: shape, Box: tensor.FullBox(shape), Data: data,
		}})
	}
	return s, nil
}

// random fills b with small bfloat16 numbers.
func random(b []byte, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64()&^0x4000400040004000)
	}
}

// modelConfig is a Llama of 26 MB per layer in bfloat16.
const modelConfig = `{"architectures": ["LlamaForCausalLM"], "vocab_size": 1024, "hidden_size": 1024, "intermediate_size": 2816,
	"num_hidden_layers": %d, "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 1024, "torch_dtype": "bfloat16"}`

// writeModel writes the directory of a model in bfloat16, with parameters that fill sets, and returns the size of its weights.
func writeModel(dir string, config []byte, fill func(data []byte, p *nn.Param, seed uint64)) (int64, error) {
	c, err := model.Registry{llama.Family}.ParseConfig("config.json", config)
	if err != nil {
		return 0, err
	}
	b, err := device.Open("meta", device.Options{})
	if err != nil {
		return 0, err
	}
	defer b.Close()
	m, err := c.Make(b, 0)
	if err != nil {
		return 0, err
	}
	params := model.Params(m)
	var entries []safetensors.Entry
	for _, p := range params {
		entries = append(entries, safetensors.Entry{Name: p.Name, DType: tensor.BF16, Shape: p.Shape})
	}
	l, err := safetensors.NewChecksumLayout(entries, map[string]string{"format": "pt"})
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return 0, err
	}
	f, err := os.Create(filepath.Join(dir, safetensors.ModelFile))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sums := l.NewSums()
	for i, e := range entries {
		data := make([]byte, e.Bytes())
		fill(data, params[i], uint64(i))
		if err := sums.Add(e.Name, 0, data); err != nil {
			return 0, err
		}
		if err := l.WriteRange(f, e.Name, 0, data); err != nil {
			return 0, err
		}
	}
	if _, err := f.WriteAt(sums.Header(), 0); err != nil {
		return 0, err
	}
	return l.Size(), f.Sync()
}
