package foreign

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trireme/fault"
	"trireme/internal/conf"
	"trireme/optim"
)

// accelerateFormat is Accelerate's YAML, which configures distribution but not training.
func accelerateFormat() *format {
	return &format{
		name: Accelerate, owner: "Accelerate's",
		signs: []string{"distributed_type", "compute_environment", "fsdp_config", "deepspeed_config", "num_processes", "num_machines", "parallelism_config"},
		keys:  accelerateKeys(), read: readAccelerate,
	}
}

var distributedTypes = map[string]string{
	"NO": "", "MULTI_CPU": "ddp", "MULTI_GPU": "ddp", "MULTI_XPU": "ddp", "MULTI_NPU": "ddp", "MULTI_MLU": "ddp", "MULTI_HPU": "ddp", "MULTI_MUSA": "ddp", "MULTI_SDAA": "ddp", "MULTI_NEURON": "ddp",
	"FSDP": "fsdp", "DEEPSPEED": "deepspeed", "MEGATRON_LM": "tensor", "XLA": "XLA", "TPU": "XLA",
}

func readAccelerate(r *reader) {
	if k, ok := r.find("compute_environment"); ok && strings.EqualFold(k.Text, "AMAZON_SAGEMAKER") {
		r.fail(k, "is AMAZON_SAGEMAKER, which is not supported. try: LOCAL_MACHINE")
		return
	}
	r.doc = withPrefixes(r.doc)
	r.readRanks()
	r.walk(r.doc, "", r.format.keys)
	k, ok := r.find("distributed_type")
	kind := ""
	if ok {
		if kind, ok = r.choose(k, distributedTypes); !ok {
			return
		}
	}
	switch {
	case kind == "tensor":
		r.fail(k, "is Megatron-LM: tensor and pipeline parallelism are not supported. try: distributed_type: FSDP")
	case kind == "XLA":
		r.fail(k, "needs TPUs, which are not supported. try: distributed_type: FSDP, or MULTI_CPU")
	case kind != "":
		r.mode(k, k.Text, kind)
	}
	switch kind {
	case "deepspeed":
		r.accelerateDeepSpeed()
	case "fsdp":
		r.accelerateFSDP(k)
	default:
		r.assignDDP(k, kind)
	}
	if kind != "deepspeed" {
		r.mixedPrecision(kind)
	}
}

// withPrefixes returns the document with full key names in its groups: Accelerate accepts
// sharding_strategy as fsdp_sharding_strategy.
func withPrefixes(doc conf.Value) conf.Value {
	out := doc
	out.Keys = slices.Clone(doc.Keys)
	for i, group := range out.Keys {
		prefix := map[string]string{"fsdp_config": "fsdp_", "dynamo_config": "dynamo_", "fp8_config": "fp8_"}[group.Name]
		if prefix == "" || group.Value.Kind != conf.Group {
			continue
		}
		keys := slices.Clone(group.Value.Keys)
		for j, k := range keys {
			if !strings.HasPrefix(k.Name, prefix) {
				keys[j].Name = prefix + k.Name
			}
		}
		out.Keys[i].Value.Keys = keys
	}
	return out
}

// assignDDP assigns DDP's strategy, or that of --mode for a single process.
func (r *reader) assignDDP(k key, kind string) {
	if kind == "ddp" || r.options.Mode == "" {
		r.assign(k, "parallel.strategy", "no_shard")
		return
	}
	r.byDefault("--mode "+r.options.Mode, "parallel.strategy", modeStrategies[r.options.Mode])
}

func (r *reader) readRanks() {
	ranks, machines := int64(0), int64(1)
	for name, n := range map[string]*int64{"num_processes": &ranks, "num_machines": &machines} {
		k, ok := r.find(name)
		if !ok || k.Kind == conf.Null || !r.checkValue(k, integer) {
			continue
		}
		if *n, _ = k.Int(); *n == -1 && name == "num_processes" { // set on the command line
			*n = 0
			if r.options.Ranks == 0 && !r.options.Launched {
				r.refuse(k, fault.Try(errors.New("is -1, which leaves the number of ranks to the command line"), "%s", fault.Set(fault.Ranks, 2)))
			}
			continue
		}
		if *n < 1 || *n > 1<<20 {
			r.fail(k, "is %d: it must be at least 1", *n)
			return
		}
	}
	k, _ := r.find("num_machines")
	switch {
	case r.options.Launched || r.options.Ranks > 0 && (machines == 1 || r.options.PlanOnly):
	case machines > 1 && !r.options.PlanOnly:
		r.fail(k, "is %d: trireme train starts ranks on one machine. try, on each machine: trireme launch --config_file %s -- trireme train ...", machines, r.name)
	default:
		r.ranks = int(ranks)
	}
	if r.options.Ranks == 0 {
		r.options.Ranks = r.ranks
	}
}

// mixedPrecision assigns the types of mixed_precision: all bfloat16 with FSDP; float32 gradients with
// DDP, as under autocast.
func (r *reader) mixedPrecision(kind string) {
	k, ok := r.find("mixed_precision")
	if old, there := r.find("fp16"); !ok && there && r.isTrue("fp16") { // the name in older files
		k, ok = key{path: old.path, where: old.where, Value: conf.Value{Kind: conf.Scalar, Text: "fp16"}}, true
	}
	if !ok || k.Kind == conf.Null {
		return
	}
	name, ok := r.choose(k, map[string]string{"no": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "fp8"})
	switch {
	case !ok:
	case name == "fp8":
		r.fail(k, "is fp8, which is not supported. try: mixed_precision: bf16")
	default:
		r.assign(k, "precision.param_dtype", name)
		switch {
		case name == "float16" && kind == "deepspeed":
			r.assign(k, "precision.loss_scaling.kind", string(optim.DeepSpeedScaler))
		case name == "float16":
			r.assign(k, "precision.loss_scaling.kind", string(optim.TorchScaler))
		}
		if kind == "fsdp" {
			r.assign(k, "precision.reduce_dtype", name)
			r.assign(k, "precision.buffer_dtype", name)
		}
	}
}

// accelerateFSDP assigns the strategy (FSDP1: by name or number; FSDP2: by reshard_after_forward) and
// the mesh.
func (r *reader) accelerateFSDP(kind key) {
	r.assign(kind, "parallel.strategy", "full_shard")
	if k, ok := r.find("fsdp_config", "fsdp_reshard_after_forward"); ok && k.Kind != conf.Null {
		r.reshardAfterForward(k)
	}
	if k, ok := r.find("fsdp_config", "fsdp_sharding_strategy"); ok && k.Kind != conf.Null {
		names := map[string]string{"1": "full_shard", "2": "shard_grad_op", "3": "no_shard", "4": "hybrid_shard", "5": "hybrid_shard_zero2"}
		for theirs, ours := range strategies {
			names[theirs] = ours
		}
		if name, ok := r.choose(k, names); ok {
			r.assign(k, "parallel.strategy", name)
		}
	}
	r.accelerateMesh()
}

// accelerateMesh reads parallelism_config: hybrid sharding.
func (r *reader) accelerateMesh() {
	size := func(name string) (key, int64) {
		k, _ := r.find("parallelism_config", "parallelism_config_"+name)
		n, _ := k.Int()
		return k, max(1, n)
	}
	copies, replicate := size("dp_replicate_size")
	shards, shard := size("dp_shard_size")
	ranks := int64(r.options.Ranks)
	switch {
	case replicate == 1 && shard == 1: // not set
		return
	case ranks > 0 && (replicate > ranks || shard > ranks || replicate*shard != ranks):
		k := shards
		if shard == 1 {
			k = copies
		}
		err := fmt.Errorf("dp_replicate_size %d x dp_shard_size %d is not the number of ranks, %d", replicate, shard, ranks)
		r.refuse(k, fault.Try(err, "%s, or other sizes", fault.Set(fault.Ranks, min(replicate, 1<<20)*min(shard, 1<<20))))
	case replicate > 1:
		r.assign(copies, "parallel.strategy", "hybrid_shard")
		r.assign(copies, "parallel.mesh.replicate", strconv.FormatInt(replicate, 10))
		if shard > 1 {
			r.assign(shards, "parallel.mesh.shard", strconv.FormatInt(shard, 10))
		}
	}
}

// accelerateDeepSpeed reads deepspeed_config, or the file that it names.
func (r *reader) accelerateDeepSpeed() {
	if file, ok := r.find("deepspeed_config", "deepspeed_config_file"); ok && file.Kind == conf.Scalar && !strings.EqualFold(file.Text, "none") {
		r.deepspeedFile(file)
		return
	}
	r.byDefault(deepspeedDefault, "parallel.strategy", "shard_grad_op")
	if k, ok := r.find("deepspeed_config", "zero_stage"); ok {
		name, known := stages[k.Text]
		if !known {
			r.fail(k, "%s is not one of 0, 1, 2, 3", k.Describe())
			return
		}
		r.assign(k, "parallel.strategy", name)
	}
	k, ok := r.find("mixed_precision")
	r.mixedPrecision("deepspeed")
	switch {
	case ok && strings.EqualFold(k.Text, "bf16"):
		r.assign(k, "precision.reduce_dtype", "bfloat16")
	case ok && strings.EqualFold(k.Text, "fp16"):
		r.assign(k, "precision.reduce_dtype", "float16")
	}
}

// deepspeedFile reads DeepSpeed's own file, at its path or relative to the file that names it.
func (r *reader) deepspeedFile(k key) {
	name := k.Text
	text, err := conf.Read(name)
	if beside := filepath.Join(filepath.Dir(r.name), name); err != nil && !filepath.IsAbs(name) && beside != name {
		if t, second := conf.Read(beside); second == nil {
			name, text, err = beside, t, nil
		}
	}
	var doc conf.Value
	if err == nil {
		doc, err = conf.Parse(name, stripComments(text))
	}
	var problems conf.Errors
	if errors.As(err, &problems) {
		for _, p := range problems {
			text := p.Error()
			if dir := filepath.Dir(r.name); errors.Is(p.Err, fs.ErrNotExist) && !filepath.IsAbs(name) && dir != "." {
				text += ", nor in " + dir
			}
			r.problems = append(r.problems, conf.Problem{Where: k.where, Path: k.path, Text: text, Err: p.Err})
		}
		return
	}
	inner := &reader{name: name, options: r.options, format: deepspeedFormat()}
	inner.deepspeed(doc)
	r.overruled(inner)
	r.defaults = append(r.defaults, inner.defaults...)
	r.assigned = append(r.assigned, inner.assigned...)
	r.fixed = append(r.fixed, inner.fixed...)
	r.notes = append(r.notes, inner.notes...)
	r.problems = append(r.problems, inner.problems...)
}

// overruled notes the keys of Accelerate's file that DeepSpeed's file overrules. Accelerate refuses both
// together.
func (r *reader) overruled(by *reader) {
	if k, ok := r.find("mixed_precision"); ok && enabled(k.Value) {
		r.note(k, "has no effect: fp16 and bf16 in "+by.name+" set the precision")
	}
	for _, path := range [][]string{
		{"gradient_accumulation_steps"}, {"deepspeed_config", "gradient_accumulation_steps"}, {"deepspeed_config", "gradient_clipping"}, {"deepspeed_config", "zero_stage"},
	} {
		k, ok := r.find(path...)
		if !ok || isAuto(k.Value) {
			continue
		}
		for _, a := range by.assigned {
			if a.Path == overruledPaths[k.name()] && a.Value != k.Text && a.Value != stages[k.Text] {
				r.note(k, "has no effect: "+a.Where+" overrules it")
			}
		}
	}
}

var overruledPaths = map[string]string{
	"gradient_accumulation_steps": "training.gradient_accumulation_steps", "gradient_clipping": "training.max_grad_norm", "zero_stage": "parallel.strategy",
}
