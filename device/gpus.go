package device

import (
	"errors"
	"fmt"
	"strings"

	"trireme/fault"
	"trireme/internal/backend/xla/cudnn"
	"trireme/internal/numa"
	"trireme/internal/nvml"
	"trireme/internal/pjrt/plugin"
)

// gpus are the NVIDIA GPUs of the machine as the driver reports them; the zero value is a machine without a
// driver.
type gpus struct {
	known   bool
	driver  string
	cuda    nvml.Version // the newest that the driver runs
	cards   []nvml.Card
	visible []nvml.Card // of CUDA_VISIBLE_DEVICES
	hopper  bool
}

func readGPUs(driver string, env func(string) (string, bool)) (g gpus, err error) {
	l, err := nvml.Open(driver)
	if errors.Is(err, nvml.ErrNoDriver) {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	defer l.Close()
	if g.driver, g.cuda, err = l.Driver(); err != nil {
		return g, err
	}
	if g.cards, err = l.Cards(); err != nil {
		return g, err
	}
	value, set := env("CUDA_VISIBLE_DEVICES")
	g.known, g.visible = true, nvml.Visible(g.cards, value, set)
	for _, c := range g.visible {
		g.hopper = g.hopper || c.Major == 9
	}
	return g, nil
}

// cudnn describes a visible GPU and the cuDNN that was found, for attention; nil if one is unknown.
func (g gpus) cudnn(found plugin.Found, index int) *cudnn.Device {
	if found.Kind != plugin.CUDA || index >= len(g.visible) {
		return nil
	}
	for _, l := range found.Libraries {
		if l.Name == "cudnn" {
			d := &cudnn.Device{Major: g.visible[index].Major, Minor: g.visible[index].Minor}
			var major, minor, patch int
			if n, _ := fmt.Sscanf(l.Version, "%d.%d.%d", &major, &minor, &patch); n == 3 {
				d.CuDNN = major*10000 + minor*100 + patch
			}
			return d
		}
	}
	return nil
}

// check returns an error if the machine has fewer GPUs than ranks.
func (g gpus) check(ranks int) error {
	switch n := len(g.visible); {
	case !g.known && !nvml.HasCUDA():
		return fault.Try(errors.New("device: no NVIDIA GPU: this machine has no driver"), "%s, or trireme doctor devices", fault.Set("device.name", "cpu"))
	case !g.known || n >= ranks:
		return nil
	case len(g.cards) == 0:
		return fault.Try(errors.New("device: this machine has no NVIDIA GPU"), "%s", fault.Set("device.name", "cpu"))
	case n < len(g.cards):
		return fault.Try(fmt.Errorf("device: %d ranks on this machine need %d GPUs: CUDA_VISIBLE_DEVICES shows %d of its %d", ranks, ranks, n, len(g.cards)), "unset CUDA_VISIBLE_DEVICES")
	}
	return tooFew(ranks, len(g.visible), "cuda")
}

func tooFew(ranks, devices int, platform string) error {
	return fault.Try(fmt.Errorf("device: %d ranks on this machine need %d devices: %s has %d", ranks, ranks, platform, devices), "%s", fault.Set(fault.Ranks, devices))
}

// checkDriver returns an error if a plug-in for this version of CUDA (13000 is 13.0) needs a newer driver.
func (g gpus) checkDriver(version int64, found plugin.Found) error {
	need := nvml.Version{Major: int(version) / 1000, Minor: int(version) % 1000 / 10}
	if !g.known || need.Major <= g.cuda.Major {
		return nil
	}
	return fault.Try(fmt.Errorf("device: plug-in %s is for CUDA %v: the driver %s runs CUDA %v", found.Path, need, g.driver, g.cuda),
		"%s, or a newer driver", plugin.Install(plugin.CUDA, g.cuda.Major))
}

// explain adds the likely cause to the error of a client.
func explain(found plugin.Found, err error) error {
	err = fmt.Errorf("device: plug-in %s: %w", found.Path, err)
	if len(found.Notes) > 0 {
		return fmt.Errorf("%w (%s)", err, strings.Join(found.Notes, "; "))
	}
	return fault.Try(err, "trireme doctor devices")
}

// GPUNodes returns the NUMA nodes of the NVIDIA GPUs that CUDA_VISIBLE_DEVICES shows, in its order; nil without a driver.
// sys is the mounted sysfs and env is os.LookupEnv.
func GPUNodes(sys string, env func(string) (string, bool)) ([]int, error) {
	g, err := readGPUs(nvml.File, env)
	if err != nil {
		return nil, err
	}
	return g.nodes(sys)
}

func (g gpus) nodes(sys string) (nodes []int, err error) {
	for _, card := range g.visible {
		n, err := numa.DeviceNode(sys, card.BusID)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// VisibleGPUs returns the number of NVIDIA GPUs that CUDA_VISIBLE_DEVICES shows; 0 without a driver. env is
// os.LookupEnv.
func VisibleGPUs(env func(string) (string, bool)) (int, error) {
	g, err := readGPUs(nvml.File, env)
	return len(g.visible), err
}
