package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"trireme/internal/convert"
	"trireme/internal/gguf"
	"trireme/monitor"
	"trireme/tensor"
)

type convertFlags struct {
	to, dtype, model, under, names, shard string
	json                                  bool
}

func newConvert() *cobra.Command {
	var f convertFlags
	c := &cobra.Command{
		Use:   "convert --to FORMAT SOURCE TARGET",
		Short: "convert checkpoints of other programs, and to their formats",
		Long: `Convert a checkpoint. SOURCE is detected from its files:

  a Hugging Face directory with safetensors or pytorch_model.bin, one file or several
  a file of torch.save: a state dict, or a trainer's checkpoint that has one
  a directory with checkpoint_step_N.pt or checkpoint_epoch_N.pt (the newest is read)
  a directory of torch.distributed.checkpoint (DCP)
  a directory of Accelerate's save_state with FSDP, sharded or full, with the optimizer
  a directory of DeepSpeed, with ZeRO 1, 2, 3 or none
  a run or a checkpoint of this program

TARGET is a directory that does not exist or is empty. Formats:

` + targetList() + `
No code in a file is run. Damaged files are refused, and tensors are read piece by piece.
Prefixes of wrappers (module., _orig_mod., _fsdp_wrapped_module.) are removed from names.`,
		Example: `  trireme convert --to hf --model DIR checkpoint.pt out
  trireme convert --to hf --dtype bfloat16 --max_shard_size 2GB DIR out
  trireme convert --to dcp --under model DIR out
  trireme convert --to dcp --names torchtitan DIR out
  trireme convert --to gguf --dtype q8_0 DIR out`,
		Args: cobra.ArbitraryArgs,
		RunE: f.run,
	}
	p := c.Flags()
	p.StringVar(&f.to, "to", "", "`FORMAT` of TARGET: "+strings.Join(targetNames(), ", "))
	p.StringVar(&f.dtype, "dtype", "", "`TYPE` of the written floats: float32, bfloat16, float16, and q8_0 with --to gguf (default: as in SOURCE)")
	p.StringVar(&f.shard, "max_shard_size", "", "with --to hf, largest `SIZE` of a file of weights (default: 5GB)")
	p.StringVar(&f.model, "model", "", "`DIR` with the model's config.json and tokenizer, if SOURCE has none")
	p.StringVar(&f.under, "under", "", "with --to dcp, `KEY` of the state dict that has the parameters: model for Accelerate")
	p.StringVar(&f.names, "names", "", "with --to dcp, `NAMES` of the parameters: torchtitan for its Llama (default: Hugging Face's)")
	p.BoolVar(&f.json, "json", false, "print one JSON object at the end")
	return c
}

func targetNames() (names []string) {
	for _, t := range convert.Targets {
		names = append(names, t.Name)
	}
	return names
}

func targetList() string {
	var b strings.Builder
	for _, t := range convert.Targets {
		fmt.Fprintf(&b, "  %-8s %s\n", t.Name, t.What)
	}
	return b.String()
}

type convertReport struct {
	Schema  string   `json:"schema"`
	From    string   `json:"from"`
	To      string   `json:"to"`
	Path    string   `json:"path"`
	Tensors int      `json:"tensors"`
	Bytes   int64    `json:"bytes"`
	Step    int      `json:"step"`
	Notes   []string `json:"notes"`
}

func (f *convertFlags) run(c *cobra.Command, args []string) error {
	if f.to == "" {
		return usage("--to is missing", c.CommandPath()+" --to hf SOURCE TARGET")
	}
	if err := oneOf("to", f.to, targetNames()...); err != nil {
		return err
	}
	if len(args) != 2 {
		return usage(fmt.Sprintf("%s needs SOURCE and TARGET, got %d arguments", c.CommandPath(), len(args)), c.CommandPath()+" --to "+f.to+" SOURCE TARGET")
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	var r convertReport
	err = untilStopped(c.Context(), "converting "+args[0], "the target is removed", func(ctx context.Context) (err error) {
		r, err = f.convert(ctx, c, args[0], args[1], o)
		return err
	})
	if err != nil {
		return err
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), r)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(c.ErrOrStderr(), n)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %s: %d tensors, %s, from %s\n", r.Path, r.Tensors, monitor.Bytes(r.Bytes), r.From)
	return err
}

// options checks the flags of a format.
func (f *convertFlags) options() (convert.Options, error) {
	o := convert.Options{DType: f.dtype, Under: f.under, Names: f.names, Model: f.model, Families: families}
	if f.dtype != "" {
		types := []string{tensor.F32.String(), tensor.BF16.String(), tensor.F16.String()}
		if f.to == "gguf" {
			types = append(types, gguf.Q8_0.String())
		}
		if err := oneOf("dtype", f.dtype, types...); err != nil {
			return o, err
		}
	}
	if f.shard != "" {
		if f.to != "hf" {
			return o, usage("--max_shard_size needs --to hf", "")
		}
		size, err := shardSize(f.shard)
		if err != nil {
			return o, err
		}
		o.Shard = int64(size)
	}
	if f.under != "" && f.to != "dcp" {
		return o, usage("--under needs --to dcp", "")
	}
	if f.names != "" {
		if err := oneOf("names", f.names, convert.TorchTitan); err != nil {
			return o, err
		}
		if f.to != "dcp" {
			return o, usage("--names needs --to dcp", "")
		}
	}
	return o, nil
}

// convert opens the source and writes the target.
func (f *convertFlags) convert(ctx context.Context, c *cobra.Command, source, dir string, o convert.Options) (convertReport, error) {
	found, err := findModel(source, c.ErrOrStderr())
	if err != nil {
		return convertReport{}, err
	}
	if err := found.resolveNames(ctx, &locator{stderr: c.ErrOrStderr()}, ""); err != nil && (f.model == "" || found.checkpoint == "") {
		return convertReport{}, err
	}
	path := found.dir
	if found.checkpoint != "" {
		path = found.checkpoint
	}
	s, err := convert.Open(path)
	if err != nil {
		return convertReport{}, &Exit{CodeUsage, err}
	}
	defer s.Close()
	if found.checkpoint != "" && f.model == "" {
		config, err := modelOf(found.cfg)
		if err != nil {
			return convertReport{}, &Exit{CodeUsage, fmt.Errorf("%s: the model of its configuration: %w", path, err)}
		}
		s.Config, s.Model = config.JSON, found.tokenizer()
	}
	target, _ := convert.FindTarget(f.to)
	w, err := target.Run(ctx, s, dir, o)
	if err != nil {
		return convertReport{}, &Exit{CodeUsage, err}
	}
	return convertReport{"trireme.convert/1", s.Format, f.to, w.Path, w.Tensors, w.Bytes, s.Step, append(append([]string{}, s.Notes...), w.Notes...)}, nil
}

// checkWeights returns an error for a model directory whose only weights are those of torch.save.
func checkWeights(dir string) error {
	if dir == "" || !convert.OnlyTorch(dir) {
		return nil
	}
	dir = filepath.Clean(dir)
	return usage(dir+" has its weights only as pytorch_model.bin, which train does not read", fmt.Sprintf("trireme convert --to hf %s %s-safetensors", dir, dir))
}
