package train

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"trireme/checkpoint"
	"trireme/data"
	"trireme/device"
	"trireme/fault"
	"trireme/internal/conf"
	"trireme/internal/objectstore"
	"trireme/internal/rundir"
	"trireme/monitor"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// Config is the configuration of a run. Each node is owned by the package that uses it.
type Config struct {
	// Name is the name of the run, which writes to runs/NAME-N if output_dir is empty. Letters,
	// digits, ".", "_" and "-". Empty: the configuration file's name without its extension, or the
	// name of the model or recipe. Default "".
	Name string `yaml:"name"`
	// OutputDir is the directory for all output. A directory that holds another run is an error.
	// Empty: a new directory runs/NAME-N, where N counts up. Default "".
	OutputDir string `yaml:"output_dir"`
	// MoveAside renames an output_dir that holds another run to OUTPUT_DIR.N, with the first
	// free N, and starts a new run under the old name. It does the same with checkpoint.dir.
	// Default false.
	MoveAside bool `yaml:"move_aside"`
	// Resume selects where the run starts. none starts a new run. auto continues the run in
	// output_dir, or without output_dir the newest run of the same name, from its newest verified
	// checkpoint; without a checkpoint it starts over. A directory starts a new run from that
	// checkpoint, or from the newest one in it. Default none.
	Resume     string            `yaml:"resume"`
	Model      ModelConfig       `yaml:"model"`
	Data       data.Config       `yaml:"data"`
	Training   Training          `yaml:"training"`
	Parallel   parallel.Config   `yaml:"parallel"`
	Precision  Precision         `yaml:"precision"`
	Recompute  Recompute         `yaml:"activation_checkpointing"`
	Offload    parallel.Offload  `yaml:"offload"`
	Checkpoint checkpoint.Config `yaml:"checkpoint"`
	Export     ExportConfig      `yaml:"export"`
	Logging    monitor.Config    `yaml:"logging"`
	Device     device.Config     `yaml:"device"`
}

// Validate checks the keys that belong to no node, and those that depend on several.
func (c Config) Validate() error {
	if !runName.MatchString(c.Name) {
		return fault.At("name", "%q: a run's name has letters, digits, \".\", \"_\" and \"-\", and begins with a letter or a digit", c.Name)
	}
	if err := rundir.CheckPath("output_dir", c.OutputDir); err != nil {
		if objectstore.IsURL(c.OutputDir) {
			return fault.Try(err, "%s, which has the checkpoints, and a directory for the rest", fault.Set("checkpoint.dir", c.OutputDir))
		}
		return err
	}
	if c.Export.Weights != ExportFinal && c.Training.EMA.Decay == 0 {
		return fault.Try(fault.At("export.weights", "is %s, but training.ema.decay is 0: no average of the weights is kept", c.Export.Weights), "%s", fault.Set("training.ema.decay", "0.999"))
	}
	return nil
}

var runName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$`)

// Training is the node `training`: batch, length of the run, optimizer and evaluation. A step is
// an optimizer step.
type Training struct {
	// MicroBatchSize is the number of rows in one forward pass of a rank. Rows are not padded; the
	// rows of a step are distributed so that ranks have equal work. Default 1.
	MicroBatchSize int `yaml:"micro_batch_size"`
	// MicroBatchTokens sets the micro-batch size in tokens: the global_batch_size rows of a step
	// are packed into the fewest micro-batches of up to this many tokens. The number of
	// micro-batches divides global_batch_size and depends only on row lengths. Do not set
	// micro_batch_size or gradient_accumulation_steps with it. 0 uses micro_batch_size. Default 0.
	MicroBatchTokens int `yaml:"micro_batch_tokens"`
	// GradientAccumulationSteps is the number of micro-batches a rank accumulates per optimizer
	// step. 0 is 1, or is computed from global_batch_size. Default 0.
	GradientAccumulationSteps int `yaml:"gradient_accumulation_steps"`
	// GlobalBatchSize is the number of rows in a step over all ranks, a multiple of
	// micro_batch_size. If gradient_accumulation_steps is 0, it is computed from this, and ranks
	// may get an empty micro-batch last; otherwise micro_batch_size x gradient_accumulation_steps x
	// ranks must match. 0 is that product. Default 0.
	GlobalBatchSize int `yaml:"global_batch_size"`
	// MaxSteps is the number of optimizer steps. 0 trains for num_train_epochs. Default 0.
	MaxSteps int `yaml:"max_steps"`
	// MaxMinutes stops the run with a checkpoint, as a signal does (exit code 75), before this many
	// minutes since this start of its ranks are over: a restart and a resume begin again. In a Slurm job the
	// end of the job (SLURM_JOB_END_TIME) is a limit too. 0 is no limit. Default 0.
	MaxMinutes float64 `yaml:"max_minutes"`
	// StopMarginSeconds is the time that a run has left at its time limit if steps, evaluations and
	// saves take no longer than before. Default 60.
	StopMarginSeconds float64 `yaml:"stop_margin_seconds"`
	// NumTrainEpochs is the number of passes over the data if max_steps is 0. Fractions are
	// allowed. Default 1.
	NumTrainEpochs float64 `yaml:"num_train_epochs"`

	optim.Schedule
	// Optimizer is the optimizer: a name, or a map of name and parameters as in torch.optim, such
	// as {name: sgd, momentum: 0.9}. docs/optimizers.md lists all. Default adamw.
	Optimizer optim.Config `yaml:"optimizer"`
	// ParameterGroups overrides training settings by parameter name. Each group is a map of match
	// (a name, or a pattern with *), lr_factor, weight_decay and optimizer. The first matching
	// group applies. Default [].
	ParameterGroups []optim.GroupConfig `yaml:"parameter_groups"`
	EMA             optim.EMA           `yaml:"ema"`
	// WeightDecay applies to parameters with two or more dimensions. AdamW, Lion, Muon and LAMB
	// decouple it from the gradient; SGD, Adam and Adagrad add it to the gradient. Default 0.1.
	WeightDecay float64 `yaml:"weight_decay"`
	// Betas are the decay rates of the first and second moments of Adam and AdamW. Default
	// [0.9, 0.95].
	Betas [2]float64 `yaml:"betas"`
	// Eps is the epsilon of Adam and AdamW. Default 1e-08.
	Eps float64 `yaml:"eps"`
	// MaxGradNorm clips the gradient to this L2 norm over all parameters. 0 does not clip. Default 1.
	MaxGradNorm float64 `yaml:"max_grad_norm"`
	// Seed seeds weight initialization, dropout and the order of the data. Default 42.
	Seed uint64 `yaml:"seed"`

	// MaxSkippedSteps is the number of consecutive steps that may be skipped because the loss or
	// a gradient is not finite. One more stops the run. Overflows that a lower dynamic loss scale
	// may avoid do not count. 0 stops at the first. Default 3.
	MaxSkippedSteps int `yaml:"max_skipped_steps"`
	// EvalEveryNSteps evaluates every n steps. 0 evaluates only at the end, if there is an
	// evaluation set. Default 0.
	EvalEveryNSteps int `yaml:"eval_every_n_steps"`
	// EvalEveryNEpochs evaluates every n epochs; fractions are allowed. Set this or
	// eval_every_n_steps, not both. Default 0.
	EvalEveryNEpochs float64 `yaml:"eval_every_n_epochs"`
	// EvalPrompts are texts that the model continues after each evaluation, greedily. events.jsonl and
	// the views of a run show the results. Needs an evaluation set and a causal model with a
	// tokenizer. Default [].
	EvalPrompts []string `yaml:"eval_prompts"`
	// EvalMaxNewTokens is the number of new tokens for each of eval_prompts, if the text does not
	// end before. Each takes a forward pass of all ranks. Default 64.
	EvalMaxNewTokens int `yaml:"eval_max_new_tokens"`
	// LoadBestModelAtEnd exports the weights of the best evaluation to final_model. Its checkpoint
	// is kept as with checkpoint.keep_best. Needs an evaluation set. Default false.
	LoadBestModelAtEnd bool `yaml:"load_best_model_at_end"`
	// MetricForBestModel is the metric that selects the best evaluation: eval_loss, perplexity,
	// accuracy, macro_f1, or a metric of the model. Higher is better for accuracy and macro_f1,
	// lower for the others. Default eval_loss.
	MetricForBestModel string `yaml:"metric_for_best_model"`
}

// Validate checks ranges and returns all errors.
func (c Training) Validate() error {
	var errs []error
	bad := func(wrong bool, key, format string, args ...any) {
		if wrong {
			errs = append(errs, fault.At(key, format, args...))
		}
	}
	bad(c.MicroBatchSize < 1, "micro_batch_size", "is %d: it must be at least 1", c.MicroBatchSize)
	bad(c.MicroBatchTokens < 0, "micro_batch_tokens", "is %d: it must not be negative", c.MicroBatchTokens)
	if c.MicroBatchTokens > 0 {
		bad(c.MicroBatchSize > 1, "micro_batch_tokens", "is %d and micro_batch_size is %d: set one of them", c.MicroBatchTokens, c.MicroBatchSize)
		bad(c.GradientAccumulationSteps > 0, "gradient_accumulation_steps", "is %d: micro_batch_tokens computes it from the rows", c.GradientAccumulationSteps)
		bad(c.GlobalBatchSize == 0, "micro_batch_tokens", "is %d: it needs global_batch_size, the rows of a step", c.MicroBatchTokens)
	}
	bad(c.GradientAccumulationSteps < 0, "gradient_accumulation_steps", "is %d: it must not be negative", c.GradientAccumulationSteps)
	bad(c.GlobalBatchSize < 0, "global_batch_size", "is %d: it must not be negative", c.GlobalBatchSize)
	bad(c.MaxSteps < 0, "max_steps", "is %d: it must not be negative", c.MaxSteps)
	bad(c.MaxSteps == 0 && !(c.NumTrainEpochs > 0), "num_train_epochs", "is %v: it must be positive if max_steps is 0", c.NumTrainEpochs)
	bad(!(c.MaxMinutes >= 0), "max_minutes", "is %v: it must not be negative", c.MaxMinutes)
	bad(!(c.StopMarginSeconds >= 0), "stop_margin_seconds", "is %v: it must not be negative", c.StopMarginSeconds)
	bad(!(c.WeightDecay >= 0), "weight_decay", "is %v: it must be 0 or more", c.WeightDecay)
	for _, b := range c.Betas {
		bad(!(b >= 0 && b < 1), "betas", "has %v: each must be in [0, 1)", b)
	}
	bad(!(c.Eps > 0), "eps", "is %v: it must be positive", c.Eps)
	if _, err := c.grouping(); err != nil {
		errs = append(errs, err)
	}
	bad(!(c.MaxGradNorm >= 0), "max_grad_norm", "is %v: it must be 0 or more", c.MaxGradNorm)
	bad(c.MaxSkippedSteps < 0, "max_skipped_steps", "is %d: it must not be negative", c.MaxSkippedSteps)
	bad(c.EvalEveryNSteps < 0, "eval_every_n_steps", "is %d: it must not be negative", c.EvalEveryNSteps)
	bad(!(c.EvalEveryNEpochs >= 0), "eval_every_n_epochs", "is %v: it must not be negative", c.EvalEveryNEpochs)
	bad(len(c.EvalPrompts) > 0 && c.EvalMaxNewTokens < 1, "eval_max_new_tokens", "is %d: it must be at least 1", c.EvalMaxNewTokens)
	bad(slices.Contains(c.EvalPrompts, ""), "eval_prompts", "has an empty text: a prompt has at least one token")
	bad(c.EvalEveryNSteps > 0 && c.EvalEveryNEpochs > 0, "eval_every_n_steps", "is %d and eval_every_n_epochs is %v: set one of them", c.EvalEveryNSteps, c.EvalEveryNEpochs)
	return errors.Join(append(errs, c.Schedule.Validate())...)
}

// steps returns the number of steps of a run with perEpoch steps an epoch.
func (c Training) steps(perEpoch int64) int {
	if c.MaxSteps > 0 {
		return c.MaxSteps
	}
	return max(1, int(math.Ceil(c.NumTrainEpochs*float64(perEpoch))))
}

func (c Training) grouping() (optim.Grouping, error) {
	adams := optim.AdamDefaults{Betas: c.Betas, Eps: c.Eps}
	averaged := func(o optim.Optimizer) optim.Optimizer {
		if c.EMA.Decay == 0 || o == nil {
			return o
		}
		return optim.Averaged{Optimizer: o, EMA: c.EMA}
	}
	o, err := c.Optimizer.Make(adams)
	if err != nil {
		return optim.Grouping{}, fault.At("optimizer", "%w", err)
	}
	out := optim.Grouping{Optimizer: averaged(o), WeightDecay: c.WeightDecay}
	for i, g := range c.ParameterGroups {
		group, err := g.Make(adams)
		if err != nil {
			return optim.Grouping{}, fault.At("parameter_groups", "%w", fmt.Errorf("group %d: %w", i+1, err))
		}
		group.Optimizer = averaged(group.Optimizer)
		out.Groups = append(out.Groups, group)
	}
	return out, nil
}

func (c Training) rows(accum, ranks int) int {
	if c.GlobalBatchSize > 0 {
		return c.GlobalBatchSize
	}
	return c.MicroBatchSize * accum * ranks
}

// WithRanks returns c with the rows per step that it has with a number of ranks, for other numbers.
func (c Training) WithRanks(ranks int) (Training, error) {
	accum, err := c.Accumulation(ranks)
	if err != nil {
		return c, err
	}
	c.GlobalBatchSize, c.GradientAccumulationSteps = c.rows(accum, ranks), 0
	return c, nil
}

// MaxTokens returns the maximum number of tokens in a micro-batch of rows of up to positions tokens.
func (c Training) MaxTokens(positions int) int {
	if c.MicroBatchTokens > 0 {
		return min(c.MicroBatchTokens, c.GlobalBatchSize*positions)
	}
	return c.MicroBatchSize * positions
}

// MaxAccumulation returns Accumulation, or with micro_batch_tokens the number of micro-batches of a
// rank if all rows have positions tokens.
func (c Training) MaxAccumulation(ranks, positions int) (int, error) {
	if c.MicroBatchTokens == 0 {
		return c.Accumulation(ranks)
	}
	if c.MicroBatchTokens < positions {
		return 0, fault.Try(fmt.Errorf("train: micro_batch_tokens %d is less than sequence_length %d", c.MicroBatchTokens, positions), "%s", fault.Set("training.micro_batch_tokens", positions))
	}
	return (data.MaxMicroBatches(c.GlobalBatchSize, c.MicroBatchTokens, positions) + ranks - 1) / ranks, nil
}

// Accumulation returns the number of micro-batches of a rank in a step; with global_batch_size the last
// one may be empty. With micro_batch_tokens it differs from step to step, and Accumulation
// returns 1.
func (c Training) Accumulation(ranks int) (int, error) {
	micro, a, global := c.MicroBatchSize, c.GradientAccumulationSteps, c.GlobalBatchSize
	switch {
	case c.MicroBatchTokens > 0:
		return 1, nil
	case global == 0:
		return max(1, a), nil
	case a == 0 && global%micro == 0:
		return (global/micro + ranks - 1) / ranks, nil
	case a == 0:
		err := fmt.Errorf("train: global_batch_size %d is not divisible by micro_batch_size %d", global, micro)
		smaller := min(micro, global)
		for global%smaller != 0 {
			smaller--
		}
		return 0, fault.Try(err, "%s, or %s", fault.Set("training.micro_batch_size", smaller), fault.Set("training.global_batch_size", (global/micro+1)*micro))
	case global != micro*a*ranks:
		return 0, fault.Try(fmt.Errorf("train: global_batch_size %d is not micro_batch_size %d x gradient_accumulation_steps %d x %d ranks = %d", global, micro, a, ranks, micro*a*ranks), "global_batch_size %d, or gradient_accumulation_steps 0 to compute it", micro*a*ranks)
	}
	return a, nil
}

// Precision is the node `precision`: data types, named as in FSDP's MixedPrecision. The optimizer
// always updates float32 parameters, and checkpoints store those.
type Precision struct {
	// ParamDType is the data type of parameters in forward and backward, and of activations. One of
	// float32 | bfloat16 | float16. Default float32.
	ParamDType string `yaml:"param_dtype"`
	// ReduceDType is the data type in which gradients are sent between ranks; they are summed in
	// float32. One of float32 | bfloat16 | float16. Default float32.
	ReduceDType string `yaml:"reduce_dtype"`
	// BufferDType is the data type of buffers, which do not train. One of float32 | bfloat16 | float16.
	// Default float32.
	BufferDType string `yaml:"buffer_dtype"`
	// LossScaling scales the loss to keep float16 gradients in range.
	LossScaling optim.LossScaling `yaml:"loss_scaling"`
}

// Types parses the data types.
func (c Precision) Types() (p parallel.Precision, err error) {
	for _, t := range []struct {
		key, name string
		dt        *tensor.DType
	}{{"param_dtype", c.ParamDType, &p.Param}, {"reduce_dtype", c.ReduceDType, &p.Reduce}, {"buffer_dtype", c.BufferDType, &p.Buffer}} {
		var ok bool
		switch *t.dt, ok = tensor.ParseDType(t.name); {
		case !ok:
			return p, fault.At(t.key, "%w", conf.NotOneOf(t.name, "float32", "bfloat16", "float16"))
		case *t.dt != tensor.F32 && *t.dt != tensor.BF16 && *t.dt != tensor.F16:
			return p, fault.At(t.key, "%s is not supported in training: use float32, bfloat16 or float16", *t.dt)
		}
	}
	return p, nil
}

// scaler returns the loss scaler for micro-batches of up to positions tokens; nil for none.
func (c Precision) scaler(positions int) *optim.Scaler {
	p, err := c.Types()
	return c.LossScaling.Scaler(err == nil && (p.Param == tensor.F16 || p.Reduce == tensor.F16), positions)
}

// Validate checks the data types.
func (c Precision) Validate() error {
	_, err := c.Types()
	return err
}

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		Resume: "none",
		Data:   data.DefaultConfig(),
		Training: Training{
			MicroBatchSize: 1, NumTrainEpochs: 1, StopMarginSeconds: 60, Schedule: optim.DefaultSchedule(), Optimizer: optim.Config{"name": "adamw"}, WeightDecay: 0.1,
			Betas: [2]float64{0.9, 0.95}, Eps: 1e-8, MaxGradNorm: 1, Seed: 42, MaxSkippedSteps: 3, EvalMaxNewTokens: 64, MetricForBestModel: "eval_loss",
		},
		Parallel:  parallel.Default(),
		Precision: Precision{ParamDType: "float32", ReduceDType: "float32", BufferDType: "float32", LossScaling: optim.DefaultLossScaling()},
		Recompute: Recompute{EveryNLayers: 1, Part: "layer", Keep: "nothing", Store: "memory", CheckEveryNSteps: 100},
		Offload:   parallel.DefaultOffload(),
		Export:    defaultExport(),
		Logging:   monitor.Default(),
		Device:    device.DefaultConfig(),
	}
}
