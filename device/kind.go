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
	case impl.Tiles() && c.Float32Matmul.parts() > 0:
		return fmt.Sprintf("cpu %v, %s", impl.Best(), c.Float32Matmul)
	}
	return fmt.Sprintf("cpu %v", impl.Best())
}
