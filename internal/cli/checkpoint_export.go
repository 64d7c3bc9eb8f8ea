package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"trireme/checkpoint"
	"trireme/device"
	"trireme/internal/conf"
	"trireme/monitor"
	"trireme/optim"
	"trireme/tensor"
	"trireme/train"
)

type checkpointExport struct {
	output, dtype, shard, weights, tokenizer string
	json                                     bool
}

func newCheckpointExport() *cobra.Command {
	f := &checkpointExport{}
	c := &cobra.Command{
		Use:   "export DIR",
		Short: "export a checkpoint as a model directory",
		Long: `Write the weights of a checkpoint, or of the newest of a run, as a Hugging Face directory: weights,
config.json, generation_config.json and the tokenizer, as final_model of a run. Run it where the
configuration of the checkpoint finds its model and tokenizer. One process loads the whole model.`,
		Example: `  trireme checkpoint export runs/sft-1 --output DIR
  trireme checkpoint export runs/sft-1/checkpoints/step-200 --output DIR --dtype bfloat16 --max_shard_size 2GB`,
		Args: oneDirectory,
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	p := c.Flags()
	p.StringVar(&f.output, "output", "", "write the model to `DIR`")
	p.StringVar(&f.dtype, "dtype", "", "float32, bfloat16 or float16 (default: export.dtype of the run)")
	p.StringVar(&f.shard, "max_shard_size", "", "largest `SIZE` of a file of weights (default: export.max_shard_size of the run)")
	p.StringVar(&f.weights, "weights", "final", "final: the weights of the step; ema: their average (training.ema)")
	p.StringVar(&f.tokenizer, "tokenizer", "", "`DIR` of the tokenizer (default: the run's)")
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	return c
}

func (f *checkpointExport) check() error {
	if f.output == "" {
		return usage("--output is missing", "--output DIR")
	}
	if err := oneOf("weights", f.weights, "final", "ema"); err != nil {
		return err
	}
	if f.dtype != "" {
		if err := oneOf("dtype", f.dtype, tensor.F32.String(), tensor.BF16.String(), tensor.F16.String()); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(f.output)
	if err == nil && len(entries) > 0 && !exists(filepath.Join(f.output, "config.json")) {
		return usage(f.output+" is not empty and holds no model", "another --output")
	}
	return nil
}

func (f *checkpointExport) run(c *cobra.Command, name string) error {
	if err := f.check(); err != nil {
		return err
	}
	path, err := oneCheckpoint(name, c.ErrOrStderr())
	if err != nil {
		return err
	}
	s := &modelSource{checkpoint: path}
	if _, err := openSource(s); err != nil {
		return err
	}
	if err := s.resolveNames(c.Context(), &locator{stderr: c.ErrOrStderr()}, f.tokenizer); err != nil {
		return err
	}
	if f.dtype != "" {
		s.cfg.Export.DType = train.ExportDType(f.dtype)
	}
	if f.shard != "" {
		if s.cfg.Export.MaxShardSize, err = shardSize(f.shard); err != nil {
			return err
		}
	}
	if err := f.write(c, s); err != nil {
		return err
	}
	size, files := dirSize(f.output)
	if f.json {
		return writeJSON(c.OutOrStdout(), struct {
			Schema     string `json:"schema"`
			Checkpoint string `json:"checkpoint"`
			Output     string `json:"output"`
			Weights    string `json:"weights"`
			Files      int    `json:"files"`
			Bytes      int64  `json:"bytes"`
		}{"trireme.checkpoint.export/1", path, f.output, f.weights, files, size})
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s of %s in %s\n", f.output, monitor.Bytes(size), path, number(int64(files), "file"))
	return err
}

// shardSize parses --max_shard_size.
func shardSize(text string) (conf.Bytes, error) {
	b, err := conf.ParseBytes(text)
	if err == nil {
		err = train.ExportConfig{MaxShardSize: b}.Validate()
	}
	if err != nil {
		return 0, &Exit{CodeUsage, fmt.Errorf("--max_shard_size: %w", err)}
	}
	return b, nil
}

// write loads the model and writes it.
func (f *checkpointExport) write(c *cobra.Command, s *modelSource) error {
	config, err := modelOf(s.cfg)
	if err != nil {
		return &Exit{CodeUsage, fmt.Errorf("%s: the model of its configuration: %w", s.checkpoint, err)}
	}
	load := train.LoadCheckpoint
	if f.weights == "ema" {
		if load = train.LoadAverage; !hasKind(s.checkpoint, optim.AverageSlot) {
			return usage(s.checkpoint+" has no average of the weights", "--weights final, or training.ema in the run")
		}
	}
	m, err := load(c.Context(), config, s.checkpoint, device.DefaultConfig(), train.Float32)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Export(c.Context(), f.output, s.cfg, tokenizersOf(s.cfg)...)
}

// hasKind reports whether a checkpoint has state of a kind.
func hasKind(path, kind string) bool {
	c, err := checkpoint.Open(path)
	if err != nil {
		return false
	}
	defer c.Close()
	return slices.ContainsFunc(c.Tensors(), func(t checkpoint.Tensor) bool { return t.Kind == kind })
}
