package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/internal/durable"
	"trireme/tensor"
	"trireme/tokenizer"
)

// writeHF writes a Hugging Face directory: weights as safetensors, and config.json, the generation
// configuration and the tokenizer of the model if they are known.
func writeHF(ctx context.Context, s *Source, dir string, o Options) (Written, error) {
	params := s.ofKind(checkpoint.Param)
	var entries []safetensors.Entry
	var shards []tensor.Shard
	w := Written{Path: dir, Notes: s.leftOut(len(params))}
	for _, t := range params {
		to := t.dtype(o.DType)
		e := safetensors.Entry{Name: t.Name, DType: to, Shape: t.Shape}
		entries = append(entries, e)
		shards = append(shards, t.narrow(to).shard(t.Name))
		w.Tensors++
		w.Bytes += e.Bytes()
	}
	if err := checkpoint.Export(ctx, dir, entries, shards, checkpoint.SingleProcess{}, checkpoint.ExportOptions{MaxShardSize: o.Shard}); err != nil {
		return w, err
	}
	config, path, err := o.configOf(s)
	if err != nil {
		return w, err
	}
	if config == nil {
		w.Notes = append(w.Notes, "no config.json: train and eval need one beside the weights (--model DIR copies it)")
		return w, nil
	}
	if config, err = withDType(config, o.DType); err == nil {
		err = durable.WriteFile(filepath.Join(dir, "config.json"), config)
	}
	if err != nil {
		return w, fmt.Errorf("convert: %s: %w", path, err)
	}
	return w, copyFiles(dir, o.modelDir(s))
}

func (o Options) modelDir(s *Source) string {
	if o.Model != "" {
		return o.Model
	}
	return s.Model
}

// copyFiles copies the generation configuration and the tokenizer's files.
func copyFiles(to, from string) error {
	if from == "" {
		return nil
	}
	for _, name := range append(tokenizer.Files(), "generation_config.json") {
		b, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = durable.WriteFile(filepath.Join(to, name), b)
		}
		if err != nil {
			return fmt.Errorf("convert: %w", err)
		}
	}
	return nil
}

// withDType sets the type of the weights in config.json.
func withDType(b []byte, dtype string) ([]byte, error) {
	if dtype == "" {
		return b, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return nil, err
	}
	key := "torch_dtype" // newer files call it dtype
	if _, newer := keys["dtype"]; newer {
		key = "dtype"
	}
	keys[key] = json.RawMessage(`"` + dtype + `"`)
	b, err := json.MarshalIndent(keys, "", "  ")
	return append(b, '\n'), err
}
