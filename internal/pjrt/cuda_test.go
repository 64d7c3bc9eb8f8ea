package pjrt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trireme/internal/pjrt"
	"trireme/internal/pjrt/pjrttest"
)

// topology describes n H200 for the CUDA plug-in, which needs none to compile for them.
func topology(t *testing.T, n int) (*pjrt.Topology, pjrt.Flag) {
	t.Helper()
	file, cudaDir := pjrttest.CUDA(t)
	p, err := pjrt.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	target, err := os.ReadFile(filepath.Join("testdata", "h200.txtpb"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := p.NewTopology([]pjrt.Option{{Name: "target_config", Value: string(target)}, {Name: "topology", Value: fmt.Sprintf("1x1x%d", n)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(top.Close)
	return top, pjrt.Flag{Name: "xla_gpu_cuda_data_dir", Value: cudaDir}
}

func TestCompileForCUDA(t *testing.T) {
	top, dir := topology(t, 1)
	e, err := top.Compile(matmul, pjrt.CompileOptions{
		Flags:    []pjrt.Flag{dir},
		Optional: []pjrt.Flag{{Name: "xla_gpu_enable_latency_hiding_scheduler", Value: true}, {Name: "xla_gpu_no_such_flag", Value: int64(1)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if fmt.Sprint(e.Outputs()) != "[tensor<2x2xf32> tensor<3xi32>]" || !slices.Equal(e.Dropped(), []string{"xla_gpu_no_such_flag"}) {
		t.Error(e.Outputs(), e.Dropped())
	}
	m, err := e.Memory()
	if err != nil || m.Arguments == 0 || m.Alias != 16 || m.Peak == 0 {
		t.Errorf("%+v %v", m, err)
	}
	if text, err := e.Text(); err != nil || !strings.Contains(text, "H200") && len(text) < 100 {
		t.Error(len(text), err)
	}
	if b, err := e.Serialize(); err != nil || len(b) < 100 {
		t.Error(len(b), err)
	}
	_, _, err = e.Execute(nil, nil, nil)
	refused(t, err, "compiled for a topology")
}

func TestCompileForEightGPUs(t *testing.T) {
	top, dir := topology(t, 8)
	e, err := top.Compile(sum(8), pjrt.CompileOptions{Replicas: 8, Flags: []pjrt.Flag{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if m, err := e.Memory(); err != nil || m.Arguments != 16 || m.Outputs != 16 {
		t.Errorf("%+v %v", m, err)
	}
}

func TestCUDARefusals(t *testing.T) {
	file, _ := pjrttest.CUDA(t)
	p, err := pjrt.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		options []pjrt.Option
		want    string
	}{
		{[]pjrt.Option{{Name: "no_such_option", Value: true}}, "Unexpected option name passed to PJRT_Client_Create: no_such_option"},
		{[]pjrt.Option{{Name: "node_id", Value: "0"}}, "want a value of type int64"},
		{[]pjrt.Option{{Name: "visible_devices", Value: int64(0)}}, "want a value of type []int64"},
	} {
		_, err := p.NewClient(o.options, nil)
		refused(t, err, o.want)
	}
	for _, o := range []struct {
		options []pjrt.Option
		want    string
	}{
		{[]pjrt.Option{{Name: "target_config", Value: "not a message"}, {Name: "topology", Value: "1x1x1"}}, ""},
		{[]pjrt.Option{{Name: "target_config", Value: ""}, {Name: "topology", Value: "8"}}, ""},
		{[]pjrt.Option{{Name: "topology", Value: "1x1x1"}}, ""},
		{nil, ""},
	} {
		top, err := p.NewTopology(o.options)
		if err == nil {
			top.Close()
		}
		refused(t, err, o.want)
	}
}
