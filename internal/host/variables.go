package host

import (
	"fmt"
	"slices"
	"strings"
)

// Effect is the use of an environment variable here.
type Effect string

// The effects.
const (
	Used      Effect = "used"
	ByLibrary Effect = "library" // read by a library that some runs load
	Unused    Effect = "unused"
)

// Variable is an environment variable, or all that begin with Name if that ends with *.
type Variable struct {
	Name    string
	Effect  Effect
	Text    string // the use, the reading library, or why there is no effect
	Instead string // for Unused and ByLibrary: a setting with the same purpose; empty: none is needed
	Secret  bool   // its value must not be printed
	Plain   bool   // set on many hosts without meaning a run: nothing is said of it
}

const (
	inMPI  = "read by the MPI library with parallel.backend=mpi"
	inCUDA = "read by NVIDIA's libraries with --device cuda"
	inXLA  = "read by the plug-in with --device cuda, tpu or xla"
	inNCCL = "read by the NCCL library in runs on several GPUs; ranks on CPUs do not use NCCL"

	threadsKey  = "device.threads"
	timeoutKey  = "parallel.timeout_seconds"
	silenceKey  = "parallel.heartbeat_seconds"
	interfaceIs = "parallel.interface"
)

// Variables is the table. The first entry that matches a name counts.
var Variables = []Variable{
	{Name: "NCCL_SOCKET_IFNAME", Effect: Used, Text: "the network interface for data between hosts, unless parallel.interface is set"},
	{Name: "GLOO_SOCKET_IFNAME", Effect: Used, Text: "as NCCL_SOCKET_IFNAME, if that is not set"},
	{Name: "TP_SOCKET_IFNAME", Effect: Used, Text: "as NCCL_SOCKET_IFNAME, if neither that nor GLOO_SOCKET_IFNAME is set"},

	{Name: "NCCL_DEBUG", Effect: ByLibrary, Text: inNCCL, Instead: "trireme doctor job DIR: the last collectives of each rank, which are always recorded"},
	{Name: "NCCL_DEBUG_*", Effect: ByLibrary, Text: inNCCL},
	{Name: "NCCL_TIMEOUT", Effect: Unused, Text: "NCCL does not read it either", Instead: timeoutKey},
	{Name: "NCCL_ASYNC_ERROR_HANDLING", Effect: Unused, Text: "a lost rank always ends the others at once"},
	{Name: "NCCL_BLOCKING_WAIT", Effect: Unused, Text: "a collective always returns an error after its time-out", Instead: timeoutKey},
	{Name: "NCCL_IB_*", Effect: ByLibrary, Text: inNCCL, Instead: "parallel.interface=ib0 (TCP over InfiniBand), or parallel.backend=mpi"},
	{Name: "NCCL_SHM_DISABLE", Effect: ByLibrary, Text: inNCCL, Instead: "parallel.backend=tcp"},
	{Name: "NCCL_SOCKET_FAMILY", Effect: ByLibrary, Text: inNCCL, Instead: "an IPv4 or IPv6 address as MASTER_ADDR or " + interfaceIs},
	{Name: "NCCL_VERSION", Effect: Unused, Plain: true},
	{Name: "NCCL_*", Effect: ByLibrary, Text: inNCCL},

	{Name: "TORCH_DISTRIBUTED_DEBUG", Effect: Unused, Text: "ranks always compare operation, type, count and sequence before data moves", Instead: "trireme doctor job DIR"},
	{Name: "TORCH_NCCL_ASYNC_ERROR_HANDLING", Effect: Unused, Text: "a lost rank always ends the others at once"},
	{Name: "TORCH_NCCL_BLOCKING_WAIT", Effect: Unused, Text: "a collective always returns an error after its time-out", Instead: timeoutKey},
	{Name: "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", Effect: Unused, Text: "it is a time of PyTorch's watchdog", Instead: silenceKey},
	{Name: "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", Effect: Unused, Text: "it is a time of PyTorch's watchdog", Instead: timeoutKey},
	{Name: "TORCH_NCCL_*", Effect: Unused, Text: "the last collectives of each rank are always recorded, and written when a rank is late or lost", Instead: "trireme doctor job DIR"},
	{Name: "TORCH_GLOO_*", Effect: Unused, Text: "it is PyTorch's"},
	{Name: "TORCH_CPP_LOG_LEVEL", Effect: Unused, Text: "there is no log level"},
	{Name: "TORCH_LOGS", Effect: Unused, Text: "it is PyTorch's", Instead: "the records of the run"},
	{Name: "TORCH_SHOW_CPP_STACKTRACES", Effect: Unused, Text: "a crash always writes its stacks to the run's logs"},
	{Name: "TORCH_HOME", Effect: Unused, Text: "models are in the cache of the hub", Instead: "HF_HOME"},
	{Name: "TORCH_VERSION", Effect: Unused, Plain: true},
	{Name: "TORCH_CUDA_ARCH_LIST", Effect: Unused, Plain: true},
	{Name: "TORCH_*", Effect: Unused, Text: "it is PyTorch's"},
	{Name: "TORCHELASTIC_RUN_ID", Effect: Used, Text: "the job", Plain: true},
	{Name: "TORCHELASTIC_RESTART_COUNT", Effect: Used, Text: "the generation of the job", Plain: true},
	{Name: "TORCHELASTIC_MAX_RESTARTS", Effect: Used, Text: "the limit of generations", Plain: true},
	{Name: "TORCHELASTIC_*", Effect: Unused, Text: "it is between torchrun and PyTorch", Plain: true},
	{Name: "PYTORCH_CUDA_ALLOC_CONF", Effect: Unused, Text: "the plug-in allocates device memory once", Instead: "device.memory_fraction"},
	{Name: "PYTORCH_ALLOC_CONF", Effect: Unused, Text: "the plug-in allocates device memory once", Instead: "device.memory_fraction"},
	{Name: "PYTORCH_VERSION", Effect: Unused, Plain: true},
	{Name: "PYTORCH_*", Effect: Unused, Text: "it is PyTorch's"},
	{Name: "GLOO_*", Effect: Unused, Text: "ranks do not use gloo"},

	{Name: "OMP_NUM_THREADS", Effect: Unused, Text: "the processors are divided among the ranks of a host (torchrun sets it to 1)", Instead: threadsKey},
	{Name: "MKL_NUM_THREADS", Effect: Unused, Text: "there is no MKL", Instead: threadsKey},
	{Name: "OPENBLAS_NUM_THREADS", Effect: Unused, Text: "there is no OpenBLAS", Instead: threadsKey},
	{Name: "BLIS_NUM_THREADS", Effect: Unused, Text: "there is no BLIS", Instead: threadsKey},
	{Name: "NUMEXPR_*", Effect: Unused, Text: "it is Python's", Instead: threadsKey},
	{Name: "OMP_*", Effect: Unused, Text: "there is no OpenMP", Instead: "numactl or taskset, which bind processes"},
	{Name: "KMP_*", Effect: Unused, Text: "there is no OpenMP", Instead: "numactl or taskset, which bind processes"},
	{Name: "GOMP_*", Effect: Unused, Text: "there is no OpenMP", Instead: "numactl or taskset, which bind processes"},
	{Name: "MKL_*", Effect: Unused, Text: "there is no MKL"},
	{Name: "GOMAXPROCS", Effect: Used, Text: "the threads of the program; its ranks share them"},
	{Name: "GOMEMLIMIT", Effect: Used, Text: "the limit of the Go heap, without tensors"},
	{Name: "GOGC", Effect: Used, Text: "the garbage collector"},
	{Name: "GODEBUG", Effect: Used, Text: "settings of the Go runtime"},

	{Name: "CUDA_VISIBLE_DEVICES", Effect: Used, Text: "the GPUs that --device cuda may use"},
	{Name: "CUDA_VERSION", Effect: Unused, Plain: true},
	{Name: "CUDA_HOME", Effect: Unused, Text: "libraries are found by the plug-in's directories", Instead: "trireme doctor devices, which lists them"},
	{Name: "CUDA_PATH", Effect: Unused, Text: "libraries are found by the plug-in's directories", Instead: "trireme doctor devices, which lists them"},
	{Name: "CUDA_*", Effect: ByLibrary, Text: inCUDA},
	{Name: "CUBLAS_*", Effect: ByLibrary, Text: inCUDA},
	{Name: "CUDNN_*", Effect: ByLibrary, Text: inCUDA},
	{Name: "NVIDIA_*", Effect: Used, Text: "read by the container's runtime", Plain: true},
	{Name: "HIP_VISIBLE_DEVICES", Effect: ByLibrary, Text: inXLA},
	{Name: "ROCR_VISIBLE_DEVICES", Effect: ByLibrary, Text: inXLA},
	{Name: "XLA_FLAGS", Effect: Used, Text: "flags of the compiler with --device cuda, tpu or xla"},
	{Name: "LIBTPU_INIT_ARGS", Effect: Used, Text: "flags of the TPU's plug-in"},
	{Name: "XLA_PYTHON_CLIENT_*", Effect: Unused, Text: "it is JAX's", Instead: "device.memory_fraction"},
	{Name: "JAX_*", Effect: Unused, Text: "it is JAX's"},
	{Name: "TF_CPP_MIN_LOG_LEVEL", Effect: Used, Text: "the level of the plug-in's messages"},

	{Name: "HF_HOME", Effect: Used, Text: "the directory of the hub's cache"},
	{Name: "HF_HUB_OFFLINE", Effect: Used, Text: "1 forbids downloads"},
	{Name: "TRANSFORMERS_OFFLINE", Effect: Used, Text: "as HF_HUB_OFFLINE"},
	{Name: "HF_ENDPOINT", Effect: Used, Text: "the address of the hub"},
	{Name: "HF_TOKEN", Effect: Used, Text: "the token for the hub", Secret: true},
	{Name: "HUGGING_FACE_HUB_TOKEN", Effect: Unused, Text: "it is an old name", Instead: "HF_TOKEN", Secret: true},
	{Name: "HF_DATASETS_CACHE", Effect: Unused, Text: "encoded rows have a cache of their own", Instead: "data.cache_dir"},
	{Name: "TRANSFORMERS_CACHE", Effect: Unused, Text: "it is an old name", Instead: "HF_HOME"},
	{Name: "TOKENIZERS_PARALLELISM", Effect: Unused, Text: "rows are always encoded by all threads"},
	{Name: "HF_HUB_ENABLE_HF_TRANSFER", Effect: Unused, Text: "it is of a Python library"},

	{Name: "ACCELERATE_*", Effect: Unused, Text: "Accelerate's launcher sets it for Python", Instead: "train with Accelerate's file"},
	{Name: "FSDP_*", Effect: Unused, Text: "Accelerate's launcher sets it for Python", Instead: "train with Accelerate's file"},
	{Name: "MIXED_PRECISION", Effect: Unused, Text: "Accelerate's launcher sets it for Python", Instead: "precision.param_dtype"},
	{Name: "DEEPSPEED_*", Effect: Unused, Text: "it is DeepSpeed's", Instead: "train with DeepSpeed's file"},
	{Name: "DS_*", Effect: Unused, Text: "it is DeepSpeed's", Instead: "train with DeepSpeed's file"},
	{Name: "WANDB_API_KEY", Effect: Unused, Text: "nothing is sent to Weights & Biases; wandb sync reads it", Instead: "logging.wandb.mode", Secret: true},
	{Name: "WANDB_*", Effect: Unused, Text: "nothing is sent to Weights & Biases; wandb sync reads it", Instead: "logging.wandb.mode"},
	{Name: "MLFLOW_TRACKING_TOKEN", Effect: Used, Text: "the token for the server of logging.mlflow.url", Secret: true},
	{Name: "MLFLOW_TRACKING_USERNAME", Effect: Used, Text: "the user at the server of logging.mlflow.url", Secret: true},
	{Name: "MLFLOW_TRACKING_PASSWORD", Effect: Used, Text: "the password at the server of logging.mlflow.url", Secret: true},
	{Name: "MLFLOW_*", Effect: Unused, Text: "it is MLflow's", Instead: "logging.mlflow.url", Secret: true},
	{Name: "TRACKIO_WRITE_TOKEN", Effect: Used, Text: "the token for the server of logging.trackio.url", Secret: true},
	{Name: "TRACKIO_*", Effect: Unused, Text: "it is trackio's", Instead: "logging.trackio.url", Secret: true},
	{Name: "OTEL_EXPORTER_OTLP_HEADERS", Effect: Used, Text: "headers for the collector of logging.otlp.url", Secret: true},
	{Name: "OTEL_*", Effect: Unused, Text: "it is OpenTelemetry's", Instead: "logging.otlp.url", Secret: true},

	{Name: "OMPI_COMM_WORLD_*", Effect: Used, Text: "Open MPI's rank and size of this process", Plain: true},
	{Name: "OMPI_*", Effect: ByLibrary, Text: inMPI, Plain: true},
	{Name: "I_MPI_*", Effect: ByLibrary, Text: inMPI},
	{Name: "UCX_*", Effect: ByLibrary, Text: inMPI},
	{Name: "FI_*", Effect: ByLibrary, Text: inMPI},
	{Name: "PMI_*", Effect: Used, Text: "MPICH's or Slurm's rank and size of this process", Plain: true},
	{Name: "PMIX_*", Effect: ByLibrary, Text: inMPI, Plain: true},
	{Name: "SLURM_*", Effect: Used, Text: "in a step that srun started: rank, size and hosts of the job", Plain: true},

	{Name: "RANK", Effect: Used, Text: "this process is a rank of a job: train joins it"},
	{Name: "WORLD_SIZE", Effect: Used, Text: "the number of ranks of the job"},
	{Name: "LOCAL_RANK", Effect: Used, Text: "the rank on this host"},
	{Name: "LOCAL_WORLD_SIZE", Effect: Used, Text: "the number of ranks on this host"},
	{Name: "GROUP_RANK", Effect: Used, Text: "the number of this host in the job"},
	{Name: "GROUP_WORLD_SIZE", Effect: Used, Text: "the number of hosts of the job"},
	{Name: "MASTER_ADDR", Effect: Used, Text: "the host of rank 0"},
	{Name: "MASTER_PORT", Effect: Used, Text: "the port of rank 0"},
	{Name: "TRIREME_JOB_SECRET", Effect: Used, Text: "the job's secret", Secret: true},
}

// Setting is a variable of the environment with its entry of the table.
type Setting struct {
	Variable
	Name, Value string // Value is empty if it is secret
}

// Set returns the variables of an environment ("KEY=value") that the table has, in its order.
func Set(environ []string) (out []Setting) {
	at := map[string]int{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		i := slices.IndexFunc(Variables, func(v Variable) bool { return v.matches(name) })
		if i < 0 || value == "" {
			continue
		}
		if Variables[i].Secret {
			value = ""
		}
		at[name] = i
		out = append(out, Setting{Variables[i], name, value})
	}
	slices.SortFunc(out, func(a, b Setting) int {
		if d := at[a.Name] - at[b.Name]; d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func (v Variable) matches(name string) bool {
	if start, ok := strings.CutSuffix(v.Name, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return name == v.Name
}

// isKey reports whether a replacement is a key of the configuration.
func isKey(instead string) bool {
	return strings.Contains(instead, ".") && !strings.ContainsAny(instead, " =")
}

// Finding explains a setting. ok is false if that needs no explanation.
func (s Setting) Finding() (f Finding, ok bool) {
	value := s.Name
	if !s.Secret {
		value += "=" + s.Value
	}
	f = Finding{Check: "variables", State: OK}
	switch {
	case s.Plain:
		return f, false
	case s.Effect == Unused:
		f.State, f.Text = Note, fmt.Sprintf("%s has no effect: %s", value, s.Text)
	default:
		f.Text = value + ": " + s.Text
	}
	if f.Try = s.Instead; isKey(f.Try) {
		f.Try = "the key " + f.Try
	}
	if f.State == OK && f.Try != "" { // of a library
		f.Text, f.Try = f.Text+". here: "+f.Try, ""
	}
	return f, true
}

// WithoutEffect returns one line that names the variables which a run on a device ignores; empty if there
// are none. launched says that another program started this rank, whose own variables are left out.
func WithoutEffect(environ []string, device string, launched bool) string {
	var names []string
	for _, s := range Set(environ) {
		switch {
		case s.Plain || s.Effect == Used:
			continue
		case s.Effect == ByLibrary && (device == "cuda" || s.Text == inMPI || device != "cpu" && s.Text == inXLA):
			continue
		case launched && s.Value == "1" && (s.Name == "OMP_NUM_THREADS" || s.Name == "TORCH_NCCL_ASYNC_ERROR_HANDLING"): // launchers set them
			continue
		}
		name := s.Name
		if isKey(s.Instead) {
			name += " (use " + s.Instead + ")"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("note: variables without effect: %s. trireme doctor explains each", strings.Join(names, ", "))
}
