package cudnn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
)

// TestCompile compiles the calls, and those of JAX, for an H200 without a card. XLA then checks the
// target and the fields of the configuration only.
func TestCompile(t *testing.T) {
	file, dir := pjrttest.CUDA(t)
	plugin, err := pjrt.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	h200, err := os.ReadFile("../../../pjrt/testdata/h200.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	topology, err := plugin.NewTopology([]pjrt.Option{{Name: "target_config", Value: string(h200)}, {Name: "topology", Value: "1x1x1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer topology.Close()
	compile := func(name, text string) {
		e, err := topology.Compile(text, pjrt.CompileOptions{Flags: []pjrt.Flag{{Name: "xla_gpu_cuda_data_dir", Value: dir}}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		defer e.Close()
		if optimized, err := e.Text(); err != nil || !strings.Contains(optimized, "__cudnn$fmhaSoftmax") {
			t.Errorf("%s: the program has no call to cuDNN (%v)", name, err)
		}
	}
	files, err := filepath.Glob("../testdata/cudnn/*.mlir")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		compile(file, string(text))
	}
	for name, a := range golden {
		for direction, c := range map[string]Call{"forward": Forward(a, hopper), "backward": Backward(a, hopper)} {
			compile(name+" "+direction, module(c))
		}
	}
}

// module is a program of one call.
func module(c Call) string {
	var params, names, results []string
	for i, t := range c.Operands {
		names = append(names, fmt.Sprintf("%%a%d", i))
		params = append(params, fmt.Sprintf("%%a%d: %s", i, t))
	}
	for i := range c.Results[:len(c.Results)-1] {
		results = append(results, fmt.Sprintf("%%r#%d", i))
	}
	out := types(c.Results[:len(c.Results)-1])
	return fmt.Sprintf("module {\n  func.func public @main(%s) -> %s {\n    %s\n    \"func.return\"(%s) : %s -> ()\n  }\n}\n",
		strings.Join(params, ", "), out, c.Text("%r", names...), strings.Join(results, ", "), out)
}
