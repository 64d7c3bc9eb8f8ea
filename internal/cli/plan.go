package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"trireme/device"
	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/model"
	"trireme/parallel"
	"trireme/planner"
	"trireme/rendezvous"
	"trireme/train"
)

type planFlags struct {
	trainFlags
	strategies  []string
	memory      string
	accountings []string
	parameters  string
	largest     string
	perNode     int
	printConfig bool
	target      string
	cudaDir     string
	worlds      []int
	gpu         string
	link        string
	network     string
	ports       int
}

var planKeys = []keyFlag{
	{flag: "micro_batch_size", path: "training.micro_batch_size", usage: "`N` rows per forward pass of a rank"},
	{flag: "gradient_accumulation_steps", path: "training.gradient_accumulation_steps", usage: "`N` micro-batches per rank and step"},
	{flag: "global_batch_size", path: "training.global_batch_size", usage: "`N` rows per step over all ranks"},
	{flag: "sequence_length", path: "data.sequence_length", usage: "`N` tokens per row, the maximum"},
	{flag: "param_dtype", path: "precision.param_dtype", usage: "`TYPE` of parameters in computation and of activations"},
	{flag: "activation_checkpointing", path: "activation_checkpointing.enabled", usage: "`BOOL`: keep only the inputs of layers and recompute the rest"},
}

// maxAssumedLength is the longest sequence length that a plan assumes by itself.
const maxAssumedLength = 4096

func newPlan() *cobra.Command {
	f := &planFlags{}
	f.noData = true
	c := &cobra.Command{
		Use:   "plan",
		Short: "predict memory, traffic and FLOPs per rank for each strategy",
		Long: fmt.Sprintf(`Simulate one training step without computing it, and report memory, traffic and FLOPs per rank
for the strategy of the run and for the others. Flags have the same meaning as for train. No data
or weights are read, so any model on any number of ranks takes only a moment.

Parameters are padded to shard evenly; all ranks need the same. Without data.sequence_length, rows
have the model's maximum length, but no more than %d positions. GB is 1e9 bytes and GiB 2^30. Only
tensors are counted: a process takes about %v more, plus scratch memory of the running operation.

With --gpu_memory, the memory of one rank, the plan reports the strategies that fit with their
largest batch, and recommends the one that shards least. The exit code is 3 if no requested strategy
fits. Repeat --strategy to compare some strategies; the default compares all.

--compile also compiles the programs of a step for a GPU, which this machine need not have, and reports
the memory that the compiler allocates beside the plan's. It takes minutes and needs XLA's CUDA plug-in
(pip install jax-cuda13-pjrt nvidia-cuda-nvcc nvidia-nvvm).

With --worlds or --gpu the plan predicts step time, tokens/s, efficiency and hidden communication on each
number of ranks, and names what limits it: by the rates that "trireme bench machine" measured here, or by
data sheets with --gpu, --link, --network and --network_ports (listed by "trireme bench machine --sheets").
Overhead is the communication that is not hidden, in percent of the computation. Rows per rank
stay the same, or with training.global_batch_size the rows of a step.

--accounting adds published formulas for training state: mixed (16 bytes per parameter), fp32 (16),
seed-000 (12), deepspeed (its estimators). With --parameters instead of a model, only these are
printed.`, maxAssumedLength, overhead),
		Example: `  trireme plan --model llama-3.1-8b/config.json --world_size 8 --gpu_memory 80GB --param_dtype bfloat16
  trireme plan --model llama-3.1-8b/config.json --world_size 8 --param_dtype bfloat16 --compile h200
  trireme plan --config ds_config.json --model config.json --world_size 16 --print_config
  trireme plan --config run.yaml --worlds 1,2,4
  trireme plan --model llama-3.1-8b/config.json --world_size 8 --param_dtype bfloat16 --gpu h100 --network ndr --worlds 1,8,64
  trireme plan --parameters 7.5e9 --world_size 64 --accounting mixed`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	p := c.Flags()
	p.StringVarP(&f.config, "config", "c", "", "configuration `FILE`, as for train")
	p.StringVar(&f.format, "config_format", "", "`FORMAT` of the file, if its keys are ambiguous: "+strings.Join(foreign.Formats(), ", "))
	p.StringVar(&f.mode, "mode", "", "`NAME` of the strategy if the file has none: ddp, fsdp or deepspeed")
	p.StringVar(&f.modelName, "model", "", "model: a Hugging Face `DIR`, a config.json, or a name on the hub")
	p.Var(&f.nproc, "world_size", "`N` ranks (default: from the file, or 1)")
	p.StringArrayVar(&f.strategies, "strategy", nil, "`STRATEGY` to plan (repeatable: the first is planned in full, the others are compared)")
	for _, k := range planKeys {
		p.String(k.flag, "", k.usage+" ["+k.path+"]")
	}
	f.addDeviceFlags(p)
	p.StringArrayVar(&f.sets, "set", nil, "set a key of the configuration, `KEY=VALUE`: training.max_steps=20 (repeatable)")
	p.StringVar(&f.memory, "gpu_memory", "", "memory `SIZE` of one rank, with unit: 80GB (80e9 bytes), 80GiB (80 x 2^30)")
	p.StringArrayVar(&f.accountings, "accounting", nil, "`NAME` of a published formula to print as well: "+strings.Join(planner.AccountingNames(), ", ")+" (repeatable)")
	p.StringVar(&f.parameters, "parameters", "", "`N` parameters (7.5e9, 7.5B) instead of a model, for --accounting")
	p.StringVar(&f.largest, "largest_layer", "", "`N` parameters of the largest module, with --parameters and --accounting deepspeed")
	p.IntVar(&f.perNode, "ranks_per_node", 0, "`N` ranks per machine, the shard group of hybrid_shard (default: the largest divisor of the ranks up to 8)")
	p.StringVar(&f.target, "compile", "", "compile for `TARGET`: "+strings.Join(device.Targets(), ", ")+", or the file of a target configuration of XLA")
	p.StringVar(&f.cudaDir, "cuda_dir", "", "`DIR` with bin/ptxas and nvvm/libdevice for --compile (default: where pip or a CUDA toolkit installs them)")
	p.IntSliceVar(&f.worlds, "worlds", nil, "predict the step on these numbers of ranks, by the rates of \"trireme bench machine\" or of --gpu")
	p.StringVar(&f.gpu, "gpu", "", "predict for `GPU` by its data sheet: "+sheetNames(planner.GPUs, func(g planner.GPU) string { return g.Name }))
	p.StringVar(&f.link, "link", "", "`LINK` between the GPUs of a host (default: the GPU's usual one): "+sheetNames(planner.Links, func(l planner.SheetLink) string { return l.Name }))
	p.StringVar(&f.network, "network", "", "`LINK` between hosts: a port of it (default: ndr for GPUs, tcp as measured for this machine)")
	p.IntVar(&f.ports, "network_ports", 0, "`N` ports of --network per host, with --gpu (default: one per rank of the host)")
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	p.BoolVar(&f.printConfig, "print_config", false, "print the resolved configuration and stop")
	return c
}

func (f *planFlags) run(c *cobra.Command) error {
	request, err := f.request(c)
	if err != nil {
		return err
	}
	if f.parameters != "" {
		return f.printAccountings(c, request)
	}
	f.deviceMemory = request.memory > 0
	j, err := f.load(c)
	if err != nil {
		return err
	}
	if err := j.warn(c.ErrOrStderr()); err != nil {
		return err
	}
	if f.printConfig {
		return f.printResolved(c.OutOrStdout(), c.ErrOrStderr(), j)
	}
	r, err := f.plan(c, j, request)
	if err != nil {
		return err
	}
	if f.json {
		err = writeJSON(c.OutOrStdout(), r)
	} else {
		err = r.print(c.OutOrStdout())
	}
	if err == nil && r.Fits != nil && !*r.Fits {
		return &Exit{CodeNo, nil}
	}
	return err
}

// printResolved prints the configuration, and on stderr the mesh and batch for the number of ranks.
func (f *planFlags) printResolved(stdout, stderr io.Writer, j *job) error {
	ranks := f.ranks(rendezvous.Single(), j)
	local, err := f.local(ranks)
	if err != nil {
		return err
	}
	s, mesh, err := j.cfg.Parallel.Resolve(ranks, local)
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	accumulation, err := j.cfg.Training.Accumulation(ranks)
	if err != nil {
		return &Exit{CodeUsage, err}
	}
	if err := conf.Print(stdout, j.cfg, nil); err != nil {
		return err
	}
	t := j.cfg.Training
	rows := t.GlobalBatchSize
	if rows == 0 {
		rows = t.MicroBatchSize * accumulation * ranks
	}
	batch := describeBatch(rows, t.MicroBatchSize, ranks)
	if t.MicroBatchTokens > 0 {
		batch = fmt.Sprintf("%d in micro-batches of up to %d tokens", t.GlobalBatchSize, t.MicroBatchTokens)
	}
	_, err = fmt.Fprintf(stderr, "ranks: %d, %s (replicate x shard: %d x %d); rows per step: %s\n", ranks, s.Name, mesh[parallel.Replicate], mesh[parallel.Shard], batch)
	return err
}

// local returns the number of ranks per machine.
func (f *planFlags) local(ranks int) (int, error) {
	const usual = 8
	switch {
	case f.perNode == 0:
		return model.LargestDivisor(ranks, usual), nil
	case ranks%f.perNode != 0:
		return 0, usage(fmt.Sprintf("--ranks_per_node is %d, which does not divide the %d ranks", f.perNode, ranks), fmt.Sprintf("--ranks_per_node %d", model.LargestDivisor(ranks, f.perNode)))
	}
	return f.perNode, nil
}

// planRequest holds the flags of plan that are not keys.
type planRequest struct {
	memory     device.Bytes // of a rank; 0: not given
	strategies []string     // to compare, by canonical name
	parameters float64
	largest    float64
}

func (f *planFlags) request(c *cobra.Command) (a planRequest, err error) {
	help := c.CommandPath() + " --help"
	if err := f.resolveNproc(); err != nil {
		return a, err
	}
	if c.Flags().Changed("world_size") && f.nproc < 1 {
		return a, usage(fmt.Sprintf("--world_size is %d: it must be at least 1", f.nproc), "")
	}
	if f.perNode < 0 {
		return a, usage(fmt.Sprintf("--ranks_per_node is %d: it must be at least 1", f.perNode), "")
	}
	if f.memory != "" {
		if a.memory, err = conf.ParseBytes(f.memory); err == nil && a.memory == 0 {
			err = errors.New("0 bytes fit nothing")
		}
		if err != nil {
			return a, usage("--gpu_memory: "+err.Error(), "")
		}
	}
	for _, s := range f.strategies {
		known, err := parallel.ParseStrategy(s)
		if err != nil {
			return a, usage("--strategy: "+err.Error(), "")
		}
		a.strategies = append(a.strategies, known.Name)
	}
	for _, name := range f.accountings {
		if err := oneOf("accounting", name, planner.AccountingNames()...); err != nil {
			return a, err
		}
	}
	if a.parameters, err = parseCount("--parameters", f.parameters); err != nil {
		return a, err
	}
	if a.largest, err = parseCount("--largest_layer", f.largest); err != nil {
		return a, err
	}
	switch {
	case f.parameters != "" && len(f.accountings) == 0:
		return a, usage("--parameters needs --accounting", c.CommandPath()+" --parameters "+f.parameters+" --world_size 8 --accounting mixed")
	case f.gpu == "" && f.link != "":
		return a, usage("--link needs --gpu: this machine's links are measured", "--gpu h100 --link "+f.link)
	case f.network != "" && f.gpu == "" && len(f.worlds) == 0:
		return a, usage("--network needs --worlds or --gpu", "--worlds 1,8,64 --network "+f.network)
	case f.ports != 0 && f.gpu == "":
		return a, usage("--network_ports needs --gpu: ranks of this machine have a port each", "--gpu h100 --network_ports "+strconv.Itoa(f.ports))
	case f.ports < 0:
		return a, usage(fmt.Sprintf("--network_ports is %d: it must be at least 1", f.ports), "--network_ports 8")
	case f.parameters != "" && (len(f.worlds) > 0 || f.gpu != ""):
		return a, usage("--worlds and --gpu need a model, not --parameters", help)
	case f.cudaDir != "" && f.target == "":
		return a, usage("--cuda_dir needs --compile", "--compile "+device.Targets()[0])
	case f.parameters != "" && f.target != "":
		return a, usage("--compile needs a model, not --parameters", help)
	case f.parameters != "" && (f.modelName != "" || f.config != ""):
		return a, usage("--parameters excludes --model and --config", help)
	}
	return a, nil
}

// parseCount parses a number of parameters: 7.5e9, 7.5B, 7500000000.
func parseCount(flag, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, scale := strings.ReplaceAll(text, "_", ""), 1.0
	for _, u := range []struct {
		name  string
		scale float64
	}{{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}} {
		if n, ok := strings.CutSuffix(strings.ToUpper(number), u.name); ok {
			number, scale = n, u.scale
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) || v*scale > 1e18 {
		return 0, usage(fmt.Sprintf("%s: %q is not a number of parameters, such as 7.5e9 or 7.5B", flag, text), "")
	}
	return v * scale, nil
}

// load resolves the configuration as train does.
func (f *planFlags) load(c *cobra.Command) (*job, error) {
	var more []conf.Source
	if f.modelName != "" {
		if info, err := os.Stat(f.modelName); err == nil && !info.IsDir() || err != nil && strings.HasSuffix(f.modelName, ".json") {
			more = append(more, conf.Flag("--model", "model.path", ""), conf.Flag("--model", "model.config", f.modelName))
		}
	}
	if len(f.strategies) > 0 {
		more = append(more, conf.Flag("--strategy", "parallel.strategy", f.strategies[0]))
	}
	for _, k := range planKeys {
		if v := c.Flags().Lookup(k.flag); v.Changed {
			more = append(more, conf.Flag("--"+k.flag, k.path, v.Value.String()))
		}
	}
	env := rendezvous.Single()
	if f.nproc > 0 { // not limited to this machine
		env.Launched, env.WorldSize = true, int(f.nproc)
	}
	return f.job(c, env, more...)
}

func (f *planFlags) plan(c *cobra.Command, j *job, request planRequest) (*planReport, error) {
	ctx := c.Context()
	if err := j.locateModel(ctx, c.ErrOrStderr()); err != nil {
		return nil, err
	}
	config := j.model
	if config == nil {
		var err error
		if config, err = j.readModel(); err != nil {
			return nil, &Exit{CodeUsage, err}
		}
	}
	info, err := train.ModelInfo(config)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	positions, note := j.positions(info.MaxPositions)
	ranks := f.ranks(rendezvous.Single(), j)
	local, err := f.local(ranks)
	if err != nil {
		return nil, err
	}
	pj := planner.Job{Config: j.cfg, Model: config, Ranks: ranks, Local: local, SeparateMemory: f.deviceMemory, Positions: positions, Rows: planner.Rows(info, j.cfg)}
	target, err := f.openTarget(pj)
	if err != nil {
		return nil, err
	}
	if target != nil {
		pj.Config.Device.Name = device.CUDA // the plan beside is of the same program
	}
	r, err := newPlanReport(ctx, pj, request)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	r.Model, r.Family, r.Note = config.Path, config.Family.Name, note
	if r.Predicted, err = f.predict(ctx, j, pj); err != nil {
		return nil, err
	}
	if target != nil {
		if r.PerRank.Compiled, err = compile(ctx, c.ErrOrStderr(), pj, target); err != nil {
			return nil, err
		}
	}
	return r, r.addAccountings(f.accountings, float64(r.Parameters), float64(r.plan.LargestModule), pj.Ranks, f.perNode)
}

// positions returns the planned row length for a model with limit positions, and a note if it is
// assumed.
func (j *job) positions(limit int) (n int, note string) {
	n = j.cfg.Data.SequenceLength
	from := j.origins["data.sequence_length"]
	switch {
	case n == 0:
		n = min(limit, maxAssumedLength)
		note = fmt.Sprintf("assuming rows of %d positions: the model has %d, and data.sequence_length is not set", n, limit)
	case n > limit && strings.HasSuffix(from, "default)"): // a default
		note = fmt.Sprintf("assuming rows of the model's %d positions, not %d (%s)", limit, n, from)
		n = limit
	}
	return n, note
}

// printAccountings prints accountings for --parameters.
func (f *planFlags) printAccountings(c *cobra.Command, request planRequest) error {
	r := &planReport{Schema: planSchema, Parameters: int64(request.parameters), WorldSize: max(1, int(f.nproc))}
	if err := r.addAccountings(f.accountings, request.parameters, request.largest, r.WorldSize, f.perNode); err != nil {
		return err
	}
	if f.json {
		return writeJSON(c.OutOrStdout(), r)
	}
	return r.printAccountings(c.OutOrStdout())
}

// locateModel resolves a model's name on the hub. A plan needs only config.json, and the tokenizer if
// it decides the vocabulary size.
func (j *job) locateModel(ctx context.Context, stderr io.Writer) error {
	text := j.resolved
	data := j.cfg.Data
	j.cfg.Data.Path, j.cfg.Data.EvalPath = "", ""
	if j.cfg.Model.VocabSize >= 0 {
		j.cfg.Data.Tokenizer = ""
	}
	j.cfg.Model.RandomWeights = true
	err := j.locate(ctx, rendezvous.Single(), stderr)
	tokenizer := j.cfg.Data.Tokenizer
	j.cfg.Data, j.resolved = data, text
	if tokenizer != "" {
		j.cfg.Data.Tokenizer = tokenizer
	}
	return err
}
