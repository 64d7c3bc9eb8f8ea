package cli

import (
	"fmt"
	"io"
	"runtime"
	"slices"

	"trireme/device"
	"trireme/internal/numa"
	"trireme/launch"
)

// sysfs is where Linux mounts sysfs. Tests replace it.
var sysfs = "/sys"

// numaNodes returns the NUMA nodes of this process's processors.
func numaNodes() ([]numa.Node, error) {
	allowed, err := numa.Allowed()
	if err != nil {
		return nil, err
	}
	return numa.Read(sysfs, allowed)
}

// autoRanks returns the number of NUMA nodes with a processor available to this process, or 1 if
// unknown. One rank per node keeps memory accesses local.
func autoRanks() int {
	nodes, err := numaNodes()
	if err != nil {
		return 1
	}
	return max(1, len(nodes))
}

const numaKey = "device.numa"

// numa returns device.numa for the device: the processes of other devices stay unbound.
func (j *job) numa() device.NUMA {
	if j.cfg.Device.Name.Accelerator() {
		return numa.Unbound
	}
	return j.cfg.Device.NUMA
}

// bindWorkers sets the processors of the workers of this machine and says so in a line. setting is the key or flag of
// p, and near has the nodes of the workers' devices; nil: none.
func bindWorkers(w *launch.Config, p device.NUMA, setting string, near []int, out io.Writer) error {
	if p == numa.Unbound || w.Nproc < 2 && near == nil {
		return nil
	}
	nodes, err := numaNodes()
	var bound []numa.Binding
	why := ""
	if err == nil {
		bound, why, err = numa.Plan(p, nodes, w.Nproc, near, runtime.GOMAXPROCS(0))
	}
	switch {
	case err != nil && p == numa.OnNode:
		return usage(fmt.Sprintf("%s is %s: %v", setting, p, err), string(numa.Unbound)+" in place of "+string(p))
	case err != nil:
		return nil
	case bound != nil:
		why = numa.Describe(bound, max(1, w.Ranks))
	case why != "":
		why = "not bound: " + why
	default:
		return nil
	}
	for _, b := range bound {
		w.Processors = append(w.Processors, b.CPUs)
	}
	_, err = fmt.Fprintf(out, "numa: %s\n", why)
	return err
}

// binding returns the policy of --numa_binding and the like, with the flag or key that sets it. Without one it is that
// of trireme train, or none for other programs.
func (f *launchFlags) binding(p program) (policy device.NUMA, setting string, err error) {
	switch value := f.numaBinding; value {
	case "":
	case "exclusive": // of torchrun: workers of a node divide its cores, as they always do here
		return numa.OnNode, "--numa_binding", nil
	case "socket", "core-complex":
		return "", "", usage("--numa_binding "+value+" is not supported", "--numa_binding node")
	default:
		return device.NUMA(value), "--numa_binding", oneOf("numa_binding", value, device.NUMA("").Choices()...)
	}
	for _, name := range []string{"bind_cores_to_rank", "enable_cpu_affinity"} {
		if f.flags.Lookup(name).Value.String() == "true" {
			return numa.OnNode, "--" + name, nil
		}
	}
	if !p.trains() {
		return numa.Unbound, "", nil
	}
	train := p.training()
	policy = device.NUMA(train.deviceKey("numa"))
	switch name := train.deviceName(); {
	case name != "" && device.Name(name).Accelerator():
		policy = numa.Unbound
	case !slices.Contains(policy.Choices(), string(policy)): // absent, or trireme train refuses it
		policy = numa.Auto
	}
	return policy, numaKey, nil
}

// bind sets the processors of this machine's workers.
func (s *launchSettings) bind(stderr io.Writer) error {
	policy, setting, err := s.flags.binding(s.program)
	if err != nil || policy == numa.Unbound {
		return err
	}
	w := &s.cluster.Workers
	var near []int
	if !s.program.trains() || s.program.training().deviceName() == string(device.CUDA) {
		near, err = device.GPUNodes(sysfs, w.Lookup)
		switch {
		case err != nil && policy == numa.OnNode:
			return usage(fmt.Sprintf("%s is %s: %v", setting, policy, err), "without "+setting)
		case err != nil:
			return nil
		case len(near) < w.Nproc:
			near = nil
		}
	}
	return bindWorkers(w, policy, setting, near, stderr)
}
