package foreign

import (
	"slices"
	"strconv"
	"strings"

	"trireme/internal/conf"
	"trireme/optim"
	"trireme/parallel"
)

// Groups of the DDP and FSDP trainers' files.

// notPadded is the reason for keys of collators.
const notPadded = "rows are not padded, and work is balanced between ranks"

func trainingKeys() keys {
	return keys{
		"model_name":                  custom("`model.path`", modelName),
		"batch_size_per_gpu":          to("training.micro_batch_size", integer),
		"gradient_accumulation_steps": to("training.gradient_accumulation_steps", integer),
		"learning_rate":               to("training.learning_rate", number),
		"num_epochs":                  to("training.num_train_epochs", number),
		"warmup_ratio":                to("training.warmup_ratio", number),
		"weight_decay":                to("training.weight_decay", number),
		"max_grad_norm":               to("training.max_grad_norm", number),
		"max_length":                  to("data.sequence_length", integer),
		"pad_to_multiple_of":          ignored(notPadded),
		"group_by_length":             ignored(notPadded),
		"seed":                        to("training.seed", integer),
		"use_amp":                     custom("`precision.param_dtype: float16` with `precision.loss_scaling.kind: torch`", autocast),
	}
}

// modelName assigns the model, unless another source sets it.
func modelName(r *reader, k key) {
	if r.checkValue(k, textual) && !r.options.Model {
		r.assign(k, "model.path", k.Text)
	}
}

// autocast reads use_amp or fp16: float16 with torch's loss scaler, and float32 gradients as with
// autocast.
func autocast(r *reader, k key) {
	if !r.checkValue(k, boolean) {
		return
	}
	if on, _ := k.Bool(); on {
		r.float16(k, optim.TorchScaler)
	}
}

func savingKeys() keys {
	return keys{
		"save_every_n_steps": to("checkpoint.save_every_n_steps", integer),
		"keep_last_n":        to("checkpoint.keep_last_n", integer),
		"checkpoint_dir":     custom("`checkpoint.dir`; with --output_dir, checkpoints go to checkpoints/ in it", checkpointDir),
	}
}

// checkpointDir assigns the checkpoint directory, unless another source sets the output directory: the
// trainers then use that.
func checkpointDir(r *reader, k key) {
	switch {
	case !r.checkValue(k, textual):
	case r.options.OutputDir:
		r.note(k, "has no effect: checkpoints go to checkpoints/ in the given output directory")
	default:
		r.assign(k, "checkpoint.dir", k.Text)
	}
}

func loggingKeys() keys {
	return keys{
		"log_every_n_steps": to("logging.log_every_n_steps", integer),
		"use_tensorboard":   to("logging.tensorboard", boolean),
		"use_wandb":         useWandB(""),
	}
}

// useWandB is the rule for a switch of Weights & Biases. project is the program's default project.
func useWandB(project string) rule {
	return custom("`logging.wandb.mode: offline`: a directory that `wandb sync` uploads", func(r *reader, k key) {
		if !r.checkValue(k, boolean) {
			return
		}
		if on, _ := k.Bool(); on {
			r.assign(k, "logging.wandb.mode", "offline")
			r.note(k, "becomes logging.wandb.mode offline: nothing is sent, wandb sync uploads wandb/ in the output directory")
			if project != "" {
				r.byDefault("its program's default", "logging.wandb.project", project)
			}
		}
	})
}

// texts assigns a list of texts.
func texts(path string) rule {
	return custom("`"+path+"`", func(r *reader, k key) {
		var quoted []string
		for _, v := range k.Items {
			if err := textual(v); err != nil {
				r.fail(k, "%s", err)
				return
			}
			quoted = append(quoted, strconv.Quote(v.Text))
		}
		if k.Kind != conf.List {
			r.fail(k, "is %s, not a list", k.Describe())
			return
		}
		r.assign(k, path, "["+strings.Join(quoted, ", ")+"]")
	})
}

// transport is the rule for distributed.backend.
func transport() rule {
	return custom("`parallel.backend: auto`: shared memory, or TCP between machines", func(r *reader, k key) {
		if _, ok := r.choose(k, map[string]string{"nccl": "", "gloo": "", "mpi": ""}); ok {
			r.assign(k, "parallel.backend", "auto")
			r.note(k, "becomes parallel.backend auto: shared memory, or TCP between machines")
		}
	})
}

// stateDict is the rule for torch's StateDictType.
func stateDict() rule {
	return custom("`checkpoint.state_dict_type`; local becomes sharded", func(r *reader, k key) {
		name, ok := r.choose(k, map[string]string{
			"full_state_dict": "full", "sharded_state_dict": "sharded", "local_state_dict": "local", "full": "full", "sharded": "sharded", "local": "local",
		})
		if name == "local" {
			name = "sharded"
			r.note(k, "becomes checkpoint.state_dict_type sharded, which loads on any number of ranks")
		}
		if ok {
			r.assign(k, "checkpoint.state_dict_type", name)
		}
	})
}

// mode refuses a --mode that contradicts the file's key k.
func (r *reader) mode(k key, is string, fits ...string) {
	if r.options.Mode != "" && !slices.Contains(fits, r.options.Mode) {
		r.fail(k, "is %s, but --mode is %s. try: --mode %s, or a file for %s", is, r.options.Mode, fits[0], r.options.Mode)
	}
}

// isReplicated reports whether a strategy shards nothing, as DDP.
func isReplicated(name string) (bool, error) {
	s, err := parallel.ParseStrategy(name)
	return !s.Params && !s.Grads && !s.Optimizer, err
}

const trainerDefault = "its trainer's default"

// saveDefaults assigns the trainer's directories.
func (r *reader) saveDefaults() {
	r.byDefault(trainerDefault, "output_dir", "./output", "training.seed", "42")
	if !r.options.OutputDir {
		r.byDefault(trainerDefault, "checkpoint.dir", "./checkpoints")
	}
}

// modelByDefault assigns the trainer's model, unless another source sets one.
func (r *reader) modelByDefault(name, task string) {
	r.byDefault(trainerDefault, "model.task", task)
	if !r.options.Model {
		r.byDefault(trainerDefault, "model.path", name)
	}
}
