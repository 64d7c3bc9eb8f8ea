package repotest

import (
	"slices"
	"strings"
)

// layers lists packages by layer, the lowest first. A name includes its subfolders if none of them is
// listed. A package imports only from lower layers.
var layers = [][]string{
	0:  {"fault", "flight", "internal/clustertest", "internal/concurrent", "internal/cpuid", "internal/dl", "internal/gcm", "internal/netns", "internal/ordered", "internal/pickle", "internal/secureconn", "internal/wire", "trace"},
	1:  {"internal/cluster/store", "internal/conf", "internal/disk", "internal/durable", "internal/filekind", "internal/flock", "internal/hostfile", "internal/impl", "internal/jinja", "internal/mpi", "internal/netif", "internal/numa", "internal/nvml", "internal/objectstore", "internal/tracefile", "hub", "tokenizer", "rendezvous", "monitor"},
	2:  {"internal/cluster/etcdstore", "internal/cluster/natsstore", "internal/host", "internal/kernel", "internal/pjrt", "internal/render", "internal/rundir", "internal/scaling", "internal/tracereport", "internal/tracing", "launch"},
	3:  {"tensor", "internal/cluster", "internal/runlog", "internal/trackers", "internal/view"},
	4:  {"autograd", "optim", "collective", "data", "internal/backend/cpu", "internal/backend/meta", "internal/backend/naive", "internal/backend/xla/cudnn", "internal/alert", "internal/verdict"},
	5:  {"nn", "checkpoint", "collective/mpi", "collective/shm", "collective/tcp", "collective/collectivetest", "internal/backend/backendtest", "internal/backend/record", "internal/ui"},
	6:  {"internal/preflight", "internal/reportcard", "internal/torchfile", "parallel", "model", "internal/backend/xla"},
	7:  {"device", "train", "generate", "model/llama", "model/gpt2", "model/bert", "model/freetransformer", "model/modeltest"},
	8:  {"internal/convert", "internal/foreign", "internal/gguf", "internal/keys", "planner", "recipes", "internal/bench", "internal/verify"},
	9:  {"internal/cli"},
	10: {"cmd/trireme", "bench", "examples"},
}

// beside lists intended imports within a layer.
var beside = map[string][]string{
	"internal/netns":      {"internal/clustertest"},
	"internal/gcm":        {"internal/cpuid"},
	"internal/secureconn": {"internal/gcm"},
	"train":               {"device", "generate"},
	"generate":            {"device"},
	"internal/conf":       {"internal/filekind"},
	"internal/foreign":    {"internal/keys"},
	"internal/convert":    {"internal/gguf"},
	"tokenizer":           {"internal/filekind"},
	"hub":                 {"internal/durable", "internal/flock", "internal/objectstore"},
	"monitor":             {"internal/disk", "internal/durable"},
}

// outside lists packages without a layer: nothing imports them.
var outside = []string{"internal/repotest"}

// ban forbids imports of to by from, except by except.
type ban struct {
	from, except, to []string
	why              string
}

var bans = []ban{
	{
		from: []string{"model", "nn", "autograd", "optim", "data"},
		to:   []string{"collective", "parallel"},
		why:  "models and operations are written for one device; parallelism is applied from outside, by parallel",
	},
	{
		from: []string{"train"},
		to:   below("model"),
		why:  "the loop uses the Model interface only; internal/cli has the registry of families",
	},
	{
		from: []string{"train"},
		to:   []string{"collective/mpi", "collective/shm", "collective/tcp"},
		why:  "the loop is given a collective.Group; internal/cli chooses its transport",
	},
	{
		from: []string{""}, except: []string{"device", "internal/backend"},
		to:  []string{"internal/backend"},
		why: "backends are opened by name with device.Open, so that one list knows them all",
	},
	{
		from: []string{""}, except: []string{"internal/cli", "internal/cluster", "cmd", "launch"},
		to:  []string{"launch"},
		why: "only a command starts processes",
	},
}

// unsafeAllowed lists packages that may import unsafe.
var unsafeAllowed = []string{"internal/dl", "internal/kernel", "internal/mpi", "internal/pjrt", "tensor", "collective/shm", "flight"}

// environmentAllowed lists packages that may read the environment; launch passes it to workers.
var environmentAllowed = []string{"bench/detect", "internal/cluster/etcdstore/etcdtest", "rendezvous", "internal/cli", "internal/netns", "internal/pjrt", "cmd", "launch"}

// forbiddenNames are package names without meaning.
var forbiddenNames = []string{"util", "utils", "common", "helper", "helpers", "misc"}

// under reports whether pkg is in one of the folders; "" includes all.
func under(pkg string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return f == "" || pkg == f || strings.HasPrefix(pkg, f+"/")
	})
}

// below lists the entries of layers in folder.
func below(folder string) (out []string) {
	for _, names := range layers {
		for _, n := range names {
			if n != folder && under(n, folder) {
				out = append(out, n)
			}
		}
	}
	return out
}

// layerOf finds a package's layer by its longest listed prefix.
func layerOf(pkg string) (layer int, entry string, ok bool) {
	for l, names := range layers {
		for _, n := range names {
			if under(pkg, n) && len(n) > len(entry) {
				layer, entry, ok = l, n, true
			}
		}
	}
	return layer, entry, ok
}
