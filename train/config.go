package train

import (
	"errors"
	"fmt"
	"math"
	"regexp"

	"trireme/checkpoint"
	"trireme/data"
	"trireme/device"
	"trireme/fault"
	"trireme/internal/conf"
	"trireme/monitor"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// Config is a run's configuration: one tree, each node owned by the package that obeys it.
type Config struct {
	// Name is the name of the run: without output_dir it writes to runs/NAME-N. It has letters,
	// digits, ".", "_" and "-". Empty is the name of the configuration file without its ending,
	// or else of the model or the recipe. Default "".
	Name string `yaml:"name"`
	// OutputDir is the run's directory, for everything that it writes. One that holds another
	// run is refused. Empty is a new one, runs/NAME-N, where N counts up. Default "".
	OutputDir string `yaml:"output_dir"`
	// MoveAside renames an output_dir that holds another run to OUTPUT_DIR.N, with the first
	// free N, and begins anew under the old name; so it does with checkpoint.dir. Default false.
	MoveAside bool `yaml:"move_aside"`
	// Resume says where the run begins: none begins a new run. auto continues the run in
	// output_dir, or without output_dir the newest run of the same name, from its newest
	// verified checkpoint, and begins anew if there is none. A directory begins a new run from
	// that checkpoint, or from the newest checkpoint in it. Default none.
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

// Validate checks what belongs to no group.
func (c Config) Validate() error {
	if !runName.MatchString(c.Name) {
		return fault.At("name", "%q: a run's name has letters, digits, \".\", \"_\" and \"-\", and begins with a letter or a digit", c.Name)
	}
	if c.Export.Weights != ExportFinal && c.Training.EMA.Decay == 0 {
		return fault.Try(fault.At("export.weights", "is %s, and no average of the weights is kept", c.Export.Weights), "%s", fault.Set("training.ema.decay", "0.999"))
	}
	return nil
}

// runName is what a run may be called: a part of a directory's name. Empty is the default.
var runName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$`)

// Training is the node `training`: batch, length of the run, optimizer and evaluation. Steps are
// optimizer steps throughout.
type Training struct {
	// MicroBatchSize is the number of rows in one forward pass of one rank. Rows are not padded,
	// and those of a step are divided so that ranks have even work. Default 1.
	MicroBatchSize int `yaml:"micro_batch_size"`
	// MicroBatchTokens gives a micro-batch as tokens: the rows of a step, global_batch_size, are
	// divided into as few micro-batches as hold at most this many tokens each. The number of
	// micro-batches divides global_batch_size and follows from the rows' lengths alone; a rank
	// left without one waits. Leave micro_batch_size and gradient_accumulation_steps out with
	// it. 0: micro_batch_size rows. Default 0.
	MicroBatchTokens int `yaml:"micro_batch_tokens"`
	// GradientAccumulationSteps is the number of micro-batches that a rank accumulates before
	// each optimizer step; 0 is 1, or follows from global_batch_size. Default 0.
	GradientAccumulationSteps int `yaml:"gradient_accumulation_steps"`
	// GlobalBatchSize is the number of rows in a step over all ranks: micro_batch_size x
	// gradient_accumulation_steps x ranks. If gradient_accumulation_steps is 0, it is computed
	// from this; otherwise the product must be this number. 0: not checked. Default 0.
	GlobalBatchSize int `yaml:"global_batch_size"`
	// MaxSteps is the number of optimizer steps; 0 trains for num_train_epochs. Default 0.
	MaxSteps int `yaml:"max_steps"`
	// NumTrainEpochs is the number of passes over the data if max_steps is 0; fractions are
	// allowed. Default 1.
	NumTrainEpochs float64 `yaml:"num_train_epochs"`

	optim.Schedule
	// Optimizer is the update rule: a name, or a map of its name and parameters with torch.optim's
	// names, such as {name: sgd, momentum: 0.9}. docs/optimizers.md has all of them. Default
	// adamw.
	Optimizer optim.Config `yaml:"optimizer"`
	// ParameterGroups trains parameters whose names match a pattern in another way. Each group is a
	// map of match (a name, or a pattern with *), lr_factor, weight_decay and optimizer; the
	// first that matches counts. Default [].
	ParameterGroups []optim.GroupConfig `yaml:"parameter_groups"`
	EMA             optim.EMA           `yaml:"ema"`
	// WeightDecay is weight decay, applied to parameters with two or more dimensions. AdamW, Lion,
	// Muon and LAMB decay apart from the gradient; SGD, Adam and Adagrad add it to the gradient.
	// Default 0.1.
	WeightDecay float64 `yaml:"weight_decay"`
	// Betas are the decay rates of the first and the second moment of Adam and AdamW. Default
	// [0.9, 0.95].
	Betas [2]float64 `yaml:"betas"`
	// Eps is the epsilon of Adam and AdamW. Default 1e-08.
	Eps float64 `yaml:"eps"`
	// MaxGradNorm clips gradients to this L2 norm over all parameters; 0 does not clip. Default 1.
	MaxGradNorm float64 `yaml:"max_grad_norm"`
	// Seed seeds initial weights, dropout and the order of the data. Default 42.
	Seed uint64 `yaml:"seed"`

	// MaxSkippedSteps is the number of consecutive steps that may be skipped because the loss or
	// a gradient is not finite; one more stops the run. Steps skipped while a dynamic loss scale
	// falls do not count. 0 stops at the first. Default 3.
	MaxSkippedSteps int `yaml:"max_skipped_steps"`
	// EvalEveryNSteps evaluates after every n steps; 0 evaluates only at the end, if there is an
	// evaluation set. Default 0.
	EvalEveryNSteps int `yaml:"eval_every_n_steps"`
	// EvalEveryNEpochs evaluates every n epochs; fractions are allowed. Use it or
	// eval_every_n_steps. Default 0.
	EvalEveryNEpochs float64 `yaml:"eval_every_n_epochs"`
	// LoadBestModelAtEnd ends the run with the weights of its best evaluation: that checkpoint is
	// kept whatever keep_last_n says, and final_model has its weights. Default false.
	LoadBestModelAtEnd bool `yaml:"load_best_model_at_end"`
	// MetricForBestModel is the metric that decides which evaluation is best: eval_loss,
	// perplexity, accuracy, macro_f1, or a metric of the model's own. For accuracy and macro_f1
	// greater is better, otherwise less. Default eval_loss.
	MetricForBestModel string `yaml:"metric_for_best_model"`
}

// Validate checks ranges, all at once.
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
		bad(c.MicroBatchSize > 1, "micro_batch_tokens", "is %d, and micro_batch_size %d: one of them", c.MicroBatchTokens, c.MicroBatchSize)
		bad(c.GradientAccumulationSteps > 0, "gradient_accumulation_steps", "is %d: with micro_batch_tokens it follows from the rows", c.GradientAccumulationSteps)
		bad(c.GlobalBatchSize == 0, "micro_batch_tokens", "is %d: it needs the rows of a step, global_batch_size", c.MicroBatchTokens)
	}
	bad(c.GradientAccumulationSteps < 0, "gradient_accumulation_steps", "is %d: it must not be negative", c.GradientAccumulationSteps)
	bad(c.GlobalBatchSize < 0, "global_batch_size", "is %d: it must not be negative", c.GlobalBatchSize)
	bad(c.MaxSteps < 0, "max_steps", "is %d: it must not be negative", c.MaxSteps)
	bad(c.MaxSteps == 0 && !(c.NumTrainEpochs > 0), "num_train_epochs", "is %v: it must be positive where max_steps is 0", c.NumTrainEpochs)
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
	bad(c.EvalEveryNSteps > 0 && c.EvalEveryNEpochs > 0, "eval_every_n_steps", "is %d, and eval_every_n_epochs %v: one of them", c.EvalEveryNSteps, c.EvalEveryNEpochs)
	return errors.Join(append(errs, c.Schedule.Validate())...)
}

// steps is how many the run makes, where an epoch has perEpoch.
func (c Training) steps(perEpoch int64) int {
	if c.MaxSteps > 0 {
		return c.MaxSteps
	}
	return max(1, int(math.Ceil(c.NumTrainEpochs*float64(perEpoch))))
}

// grouping is how parameters are trained.
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

// rows of a step over all ranks, each of which has accum micro-batches.
func (c Training) rows(accum, ranks int) int {
	if c.MicroBatchTokens > 0 {
		return c.GlobalBatchSize
	}
	return c.MicroBatchSize * accum * ranks
}

// MaxTokens is the number of tokens of a micro-batch at most, with rows of at most positions.
func (c Training) MaxTokens(positions int) int {
	if c.MicroBatchTokens > 0 {
		return min(c.MicroBatchTokens, c.GlobalBatchSize*positions)
	}
	return c.MicroBatchSize * positions
}

// MaxAccumulation is Accumulation, or with micro_batch_tokens what it is where all rows have
// positions tokens.
func (c Training) MaxAccumulation(ranks, positions int) (int, error) {
	if c.MicroBatchTokens == 0 {
		return c.Accumulation(ranks)
	}
	if c.MicroBatchTokens < positions {
		return 0, fault.Try(fmt.Errorf("train: micro_batch_tokens %d is less than sequence_length %d", c.MicroBatchTokens, positions), "%s", fault.Set("training.micro_batch_tokens", positions))
	}
	return (data.MaxMicroBatches(c.GlobalBatchSize, c.MicroBatchTokens, positions) + ranks - 1) / ranks, nil
}

// Accumulation is the number of micro-batches of a rank in a step, in a world of ranks. With
// micro_batch_tokens it differs from step to step, and this is 1.
func (c Training) Accumulation(ranks int) (int, error) {
	micro, a, global := c.MicroBatchSize, c.GradientAccumulationSteps, c.GlobalBatchSize
	switch {
	case c.MicroBatchTokens > 0:
		return 1, nil
	case global == 0:
		return max(1, a), nil
	case a == 0 && global%(micro*ranks) == 0:
		return global / (micro * ranks), nil
	case a == 0:
		per := micro * ranks
		try := fmt.Sprint((global/per + 1) * per)
		if global > per {
			try = fmt.Sprintf("%d or %s", global/per*per, try)
		}
		return 0, fault.Try(fmt.Errorf("train: global_batch_size %d does not divide by micro_batch_size %d x %d ranks", global, micro, ranks), "%s", try)
	case global != micro*a*ranks:
		return 0, fault.Try(fmt.Errorf("train: global_batch_size %d is not micro_batch_size %d x gradient_accumulation_steps %d x %d ranks = %d", global, micro, a, ranks, micro*a*ranks), "global_batch_size %d, or gradient_accumulation_steps 0 (worked out)", micro*a*ranks)
	}
	return a, nil
}

// Precision is the node `precision`: data types, named as in FSDP's MixedPrecision. Whatever the
// types, the optimizer updates float32 parameters, and checkpoints hold those.
type Precision struct {
	// ParamDType is the type of parameters in computation, and of activations. One of float32 |
	// bfloat16 | float16. Default float32.
	ParamDType string `yaml:"param_dtype"`
	// ReduceDType is the type in which gradients are sent between ranks; sums are float32. One of
	// float32 | bfloat16 | float16. Default float32.
	ReduceDType string `yaml:"reduce_dtype"`
	// BufferDType is the type of buffers that do not train. One of float32 | bfloat16 | float16.
	// Default float32.
	BufferDType string `yaml:"buffer_dtype"`
	// LossScaling scales the loss so that float16 gradients stay in range.
	LossScaling optim.LossScaling `yaml:"loss_scaling"`
}

// Types reads the names.
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
			return p, fault.At(t.key, "%s cannot be trained in: float32, bfloat16 and float16 can", *t.dt)
		}
	}
	return p, nil
}

// scaler is the loss scaler of micro-batches of so many positions; nil for none.
func (c Precision) scaler(positions int) *optim.Scaler {
	p, err := c.Types()
	return c.LossScaling.Scaler(err == nil && (p.Param == tensor.F16 || p.Reduce == tensor.F16), positions)
}

// Validate refuses what cannot be trained in.
func (c Precision) Validate() error {
	_, err := c.Types()
	return err
}

// Default is the configuration of a file that says nothing.
func Default() Config {
	return Config{
		Resume: "none",
		Data:   data.DefaultConfig(),
		Training: Training{
			MicroBatchSize: 1, NumTrainEpochs: 1, Schedule: optim.DefaultSchedule(), Optimizer: optim.Config{"name": "adamw"}, WeightDecay: 0.1,
			Betas: [2]float64{0.9, 0.95}, Eps: 1e-8, MaxGradNorm: 1, Seed: 42, MaxSkippedSteps: 3, MetricForBestModel: "eval_loss",
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
