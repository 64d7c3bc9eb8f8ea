package device

import (
	"fmt"

	"trireme/internal/impl"
)

// Kind names what decides how the operations of b, which c opened, round their results: on cpu the instruction set,
// and how products of float32 are computed if not as Highest; on others the platform and the model of the device.
// Runs on machines of one kind have the same bits, if the device itself is deterministic.
func (c Config) Kind(b Device) string {
	switch a, ok := b.(*accelerator); {
	case ok:
		return fmt.Sprintf("%s %s", a.client.Platform(), a.client.Devices()[0].Kind())
	case c.CPUFloat32Matmul() != Highest:
		return fmt.Sprintf("cpu %v, %s", impl.Best(), c.CPUFloat32Matmul())
	}
	return fmt.Sprintf("cpu %v", impl.Best())
}

// CPUFloat32Matmul is how this processor computes products of float32 with c.Instructions: Highest without tiles.
func (c Config) CPUFloat32Matmul() Float32Matmul {
	tiles := impl.Tiles()
	if c.Instructions != AutoInstructions {
		tiles = string(c.Instructions) == impl.AMX.String()
	}
	if !tiles || c.Float32Matmul.parts() == 0 {
		return Highest
	}
	return c.Float32Matmul.onCPU()
}
