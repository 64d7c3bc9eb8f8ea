package device

import (
	"fmt"

	"trireme/internal/nvml"
	"trireme/internal/pjrt/plugin"
)

// Available is the memory of a rank's device.
type Available struct {
	Bytes Bytes
	Why   string // the limit, for messages
}

// Check refuses a device that cannot run ranks on this machine, before anything starts: no plug-in, missing
// libraries or instructions, too few GPUs. It returns the memory of a rank, zero if the rank uses the memory of the host or
// the device's is unknown. It loads no plug-in, and selects the instruction set of cpu.
func (c Config) Check(ranks int) (Available, error) {
	if !c.Name.Accelerator() {
		return Available{}, c.Instructions.Use()
	}
	found, g, err := find(plugin.Machine(), nvml.File, c, ranks)
	if err != nil || found.Kind != plugin.CUDA || !g.known {
		return Available{}, err
	}
	least := g.visible[0]
	for _, card := range g.visible[:ranks] {
		if card.Memory < least.Memory {
			least = card
		}
	}
	return Available{
		Bytes: Bytes(float64(least.Memory) * c.MemoryFraction),
		Why:   fmt.Sprintf("GPU %d (%s) has %v, device.memory_fraction is %v", least.Index, least.Name, Bytes(least.Memory), c.MemoryFraction),
	}, nil
}
