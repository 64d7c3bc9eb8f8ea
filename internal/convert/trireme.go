package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/fault"
	"trireme/internal/conf"
	"trireme/model"
	"trireme/nn"
	"trireme/tensor"
	"trireme/tokenizer"
	"trireme/train"
)

// writeOwn writes checkpoints/step-N of an output directory: parameters in float32 and the state of
// AdamW. Without optimizer state in the source, N is 0 and the moments are zero. The configuration
// in it has the model's config.json.
func writeOwn(ctx context.Context, s *Source, dir string, o Options) (Written, error) {
	if o.DType != "" && o.DType != tensor.F32.String() {
		return Written{}, fault.Try(fmt.Errorf("convert: a checkpoint has parameters in float32, not %s", o.DType), "no --dtype")
	}
	m, err := o.model(s)
	if err != nil {
		return Written{}, err
	}
	items, step, notes, err := m.items(s)
	if err != nil {
		return Written{}, err
	}
	cfg := train.Default()
	cfg.Data.Path = "unknown, converted from " + s.Path // a configuration has a path; resuming names both
	if err := json.Unmarshal(m.config.JSON, &cfg.Model.Inline); err != nil {
		return Written{}, fmt.Errorf("convert: %s: %w", m.config.Path, err)
	}
	if from := o.modelDir(s); from != "" && slices.ContainsFunc(tokenizer.Files(), func(name string) bool { return exists(from, name) }) {
		if cfg.Data.Tokenizer, err = filepath.Abs(from); err != nil {
			return Written{}, fmt.Errorf("convert: %w", err)
		}
	}
	var text strings.Builder
	if err := conf.Print(&text, cfg, nil); err != nil {
		return Written{}, err
	}
	state, err := train.ConvertedState(step)
	if err != nil {
		return Written{}, err
	}
	store, err := checkpoint.NewStore(dir, "", checkpoint.Config{}, checkpoint.SingleProcess{}, nil)
	if err != nil {
		return Written{}, err
	}
	saved, err := store.Save(ctx, checkpoint.Meta{Step: step, Config: text.String(), State: state}, items)
	return Written{Path: saved.Path, Tensors: len(items), Bytes: saved.Bytes, Notes: notes}, err
}

// network is the model of a config.json, without weights.
type network struct {
	config *model.Config
	params []*nn.Param
}

func (o Options) model(s *Source) (network, error) {
	var n network
	b, path, err := o.configOf(s)
	if err != nil {
		return n, err
	}
	if b == nil {
		return n, fault.Try(fmt.Errorf("convert: %s has no config.json, and a checkpoint needs the model's", s.Path), "--model DIR with config.json")
	}
	if n.config, err = o.Families.ParseConfig(path, b); err != nil {
		return n, err
	}
	meta, err := device.Open("meta", device.Options{})
	if err != nil {
		return n, err
	}
	defer meta.Close()
	made, err := n.config.Make(meta, 0)
	if err != nil {
		return n, err
	}
	n.params = model.Params(made)
	return n, nil
}

// items returns the state of a checkpoint: parameters and moments of AdamW under the model's names.
func (n network) items(s *Source) (items []checkpoint.Item, step int, notes []string, err error) {
	have := map[[2]string]Tensor{}
	params := s.ofKind(checkpoint.Param)
	first, second := s.moments()
	for _, t := range slices.Concat(params, first, second) {
		have[[2]string{t.Kind, t.Name}] = t
	}
	moments := len(first) > 0
	if notes = s.leftOut(len(have)); moments {
		step = s.Step
	} else {
		notes = append(notes, "no moments of Adam: training starts at step 0 with these weights")
	}
	taken := map[string]bool{}
	for _, p := range n.params {
		t, err := n.find(have, p, taken)
		if err != nil {
			return nil, 0, nil, fmt.Errorf("convert: %s: %w", s.Path, err)
		}
		items = append(items, checkpoint.Item{Kind: checkpoint.Param, Shard: t.as(tensor.F32).shard(p.Name)})
		for _, slot := range adamSlots {
			m, ok := have[[2]string{slot, t.Name}]
			switch {
			case !moments:
				m = Tensor{Type: "F32", Shape: p.Shape, Read: func(_, _ int, dst []byte) error { clear(dst); return nil }}
			case !ok || !m.Shape.Equal(p.Shape):
				return nil, 0, nil, fault.Try(fmt.Errorf("convert: %s has no %s of %s", s.Path, slot, t.Name), "--to hf, for the weights only")
			}
			items = append(items, checkpoint.Item{Kind: slot, Shard: m.as(tensor.F32).shard(p.Name)})
		}
	}
	var rest []string
	for _, t := range params {
		ignored := n.config.Family.IgnoreUnexpected
		if !taken[t.Name] && (ignored == nil || !ignored(t.Name)) {
			rest = append(rest, t.Name)
		}
	}
	if len(rest) > 0 {
		return nil, 0, nil, fault.Try(fmt.Errorf("convert: %s has tensors that are not in the model of %s: %s", s.Path, n.config.Path, few(rest)), "the model's own config.json")
	}
	return items, step, notes, nil
}

// find returns the tensor of a parameter under any of its names. Copies under other names must have
// equal values.
func (n network) find(have map[[2]string]Tensor, p *nn.Param, taken map[string]bool) (Tensor, error) {
	names := append([]string{p.Name}, p.Aliases...)
	if n.config.Family.Aliases != nil {
		names = append(names, n.config.Family.Aliases(p.Name)...)
	}
	var found *Tensor
	for _, name := range append(names, p.Duplicates...) {
		t, ok := have[[2]string{checkpoint.Param, name}]
		if !ok {
			continue
		}
		taken[name] = true
		switch {
		case !t.Shape.Equal(p.Shape):
			return t, fault.Try(fmt.Errorf("%v does not fit %s, where it is %v", t, n.config.Path, p.Shape), "the model's own config.json")
		case !t.isFloat():
			return t, fmt.Errorf("%v is not a tensor of floats", t)
		case found == nil:
			found = &t
			continue
		}
		same, err := equal(found.as(tensor.F32), t.as(tensor.F32))
		if err != nil {
			return t, err
		}
		if !same {
			return t, fault.Try(fmt.Errorf("%s ties %s to %s, but their values differ", n.config.Path, name, found.Name), `"tie_word_embeddings": false in config.json`)
		}
	}
	if found == nil {
		return Tensor{}, fault.Try(fmt.Errorf("it has no %s, which the model of %s needs", p.Name, n.config.Path), "the model's own config.json")
	}
	return *found, nil
}

// equal compares the elements of two float32 tensors of one shape.
func equal(a, b Tensor) (bool, error) {
	const per = 1 << 18
	x, y := make([]byte, 4*per), make([]byte, 4*per)
	for at, n := 0, a.Shape.Elems(); at < n; at += per {
		count := min(per, n-at)
		if err := a.Read(at, count, x[:4*count]); err != nil {
			return false, err
		}
		if err := b.Read(at, count, y[:4*count]); err != nil {
			return false, err
		}
		if !bytes.Equal(x[:4*count], y[:4*count]) {
			return false, nil
		}
	}
	return true, nil
}

// configOf returns config.json and its path; nil if there is none.
func (o Options) configOf(s *Source) ([]byte, string, error) {
	if o.Model == "" && s.Config != nil {
		return s.Config, s.Path, nil
	}
	dir := o.modelDir(s)
	if dir == "" {
		return nil, "", nil
	}
	path := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, path, fmt.Errorf("convert: %w", err)
	}
	return b, path, nil
}
