package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"trireme/parallel"
	"trireme/planner"
)

// predictionReport is predicted steps by number of ranks.
type predictionReport struct {
	Rates string               `json:"rates"` // the hardware
	Rows  []planner.Prediction `json:"rows"`
}

func sheetNames[T any](sheets []T, name func(T) string) string {
	var out []string
	for _, s := range sheets {
		out = append(out, name(s))
	}
	return strings.Join(out, ", ")
}

// predict predicts the job on --worlds, or on the plan's ranks; nil if neither they nor a GPU are given.
func (f *planFlags) predict(ctx context.Context, j *job, pj planner.Job) (*predictionReport, error) {
	if len(f.worlds) == 0 && f.gpu == "" {
		return nil, nil
	}
	worlds := slices.Clone(f.worlds)
	if len(worlds) == 0 {
		worlds = []int{pj.Ranks}
	}
	for i, w := range worlds {
		if w < 1 {
			return nil, usage(fmt.Sprintf("--worlds has %d: a world has at least 1 rank", w), "--worlds 1,2,4")
		}
		if slices.Contains(worlds[:i], w) {
			return nil, usage(fmt.Sprintf("--worlds has %d twice", w), "")
		}
	}
	slices.Sort(worlds)
	h, err := f.hardware(j, pj, worlds[len(worlds)-1])
	if err != nil {
		return nil, err
	}
	rows, err := pj.PredictWorlds(ctx, h, worlds)
	if err != nil {
		return nil, &Exit{CodeUsage, err}
	}
	return &predictionReport{h.Name, rows}, nil
}

func (f *planFlags) hardware(j *job, pj planner.Job, largest int) (h planner.Hardware, err error) {
	var network *planner.SheetLink
	if f.network != "" {
		n, err := planner.ParseLink(f.network)
		if err != nil {
			return h, usage("--network: "+strings.TrimPrefix(err.Error(), "planner: "), "")
		}
		network = &n
	}
	if f.gpu == "" {
		return machineHardware(j, pj.Config.Precision.ParamDType, threadsFor(j, largest), string(pj.Config.Parallel.Backend), network)
	}
	g, err := planner.ParseGPU(f.gpu)
	if err != nil {
		return h, usage("--gpu: "+strings.TrimPrefix(err.Error(), "planner: "), "")
	}
	if f.link == "" {
		f.link = g.Link
	}
	link, err := planner.ParseLink(f.link)
	if err != nil {
		return h, usage("--link: "+strings.TrimPrefix(err.Error(), "planner: "), "")
	}
	if network == nil {
		n, err := planner.ParseLink("ndr")
		if err != nil {
			return h, err
		}
		network = &n
	}
	local := f.perNode
	if local == 0 {
		local = min(largest, 8)
	}
	ports := f.ports
	if ports == 0 {
		ports = local
	}
	return planner.SheetHardware(g, pj.Config.Precision.ParamDType, local, link, *network, ports), nil
}

// threadsFor returns the threads of a rank if up to largest ranks share this machine: the same on every number of
// ranks.
func threadsFor(j *job, largest int) int {
	if j.cfg.Device.Threads > 0 {
		return j.cfg.Device.Threads
	}
	return max(1, runtime.GOMAXPROCS(0)/largest)
}

// machineHardware returns this machine's measured rates.
func machineHardware(j *job, dtype string, threads int, transport string, network *planner.SheetLink) (planner.Hardware, error) {
	m, err := planner.LoadMachine()
	if err != nil {
		return planner.Hardware{}, &Exit{CodeUsage, err}
	}
	if m == nil {
		return planner.Hardware{}, usage("the rates of this machine were not measured", "trireme bench machine, or --gpu h100")
	}
	if transport == string(parallel.Default().Backend) {
		if transport = "shm"; m.Transports[transport].Ops == nil {
			transport = "tcp"
		}
	}
	h, err := m.Hardware(dtype, threads, transport, network)
	if err != nil {
		return h, &Exit{CodeUsage, err}
	}
	return h, nil
}

func (r *predictionReport) print(w io.Writer) error {
	fmt.Fprintf(w, "\npredicted by %s:\n", r.Rates)
	t := columns(w)
	fmt.Fprintln(t, "ranks\tstep ms\ttokens/s\tefficiency\tproducts ms\toperands ms\tcommunication ms\texposed ms\thidden\toverhead\tlimit\t")
	for _, p := range r.Rows {
		hidden := "-"
		if p.Comm > 0 {
			hidden = fmt.Sprintf("%.0f%%", 100*p.Overlap())
		}
		fmt.Fprintf(t, "%d\t%.1f\t%.0f\t%.3f\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t%.1f%%\t%s\t\n", p.World, 1e3*p.Step, p.Tokens, p.Efficiency, 1e3*p.Products, 1e3*p.Operands, 1e3*p.Comm, 1e3*p.Exposed, hidden, 100*p.Overhead(), p.Limit)
	}
	return t.Flush()
}
