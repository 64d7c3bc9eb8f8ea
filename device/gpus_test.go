package device

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"trireme/internal/nvml/nvmltest"
)

func TestGPUNodes(t *testing.T) {
	g, err := readGPUs(nvmltest.Library(t), func(name string) (string, bool) { return "1,0", name == "CUDA_VISIBLE_DEVICES" })
	if err != nil {
		t.Fatal(err)
	}
	sys := t.TempDir()
	for address, node := range map[string]string{"0000:1b:00.0": "0", "0000:1c:00.0": "1"} {
		dir := filepath.Join(sys, "bus/pci/devices", address)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "numa_node"), []byte(node+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if nodes, err := g.nodes(sys); err != nil || !slices.Equal(nodes, []int{1, 0}) {
		t.Errorf("%v, %v", nodes, err)
	}
	if nodes, err := g.nodes(t.TempDir()); err == nil {
		t.Errorf("GPUs without sysfs are on nodes %v", nodes)
	}
}
