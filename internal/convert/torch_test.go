package convert

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// torch returns the Python with PyTorch: TORCH_PYTHON, or python3. Without PyTorch it skips the test, unless
// TORCH_PYTHON is set.
func torch(t *testing.T) (python string) {
	t.Helper()
	python = os.Getenv("TORCH_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import torch.distributed.checkpoint").CombinedOutput(); err != nil {
		text := fmt.Sprintf("no PyTorch: %s -c 'import torch': %v %.80s. try: TORCH_PYTHON=/path/to/python", python, err, bytes.TrimSpace(out))
		if os.Getenv("TORCH_PYTHON") != "" {
			t.Fatal(text)
		}
		t.Skip("SKIPPED: ", text)
	}
	return python
}

const loadDCP = `
import json, sys, torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
for line in sys.stdin:
    name, dir, under = line.rstrip("\n").split("\t")
    want = json.load(open("testdata/" + name + ".json"))["tensors"]
    def check(sd):
        sd = sd[under] if under else sd
        assert sorted(sd) == sorted(want), (sorted(sd), sorted(want))
        for k, w in want.items():
            t = sd[k]
            assert str(t.dtype)[6:] == w["dtype"] and list(t.shape) == w["shape"], (name, k, t.dtype, t.shape)
            raw = bytes(t.contiguous().reshape(-1).view(torch.uint8).tolist()).hex() if t.numel() else ""
            assert raw == w["hex"], (name, k)
    dcp_to_torch_save(dir, dir + ".pt")
    check(torch.load(dir + ".pt"))
    sd = {k: torch.empty(w["shape"], dtype=getattr(torch, w["dtype"])) for k, w in want.items()}
    sd = {under: sd} if under else sd
    dcp.load(sd, checkpoint_id=dir)
    check(sd)
`

// TestTorchLoadsDCP: torch.distributed.checkpoint loads what writeDCP writes, with the same bits, and what
// it saves of that reads back.
func TestTorchLoadsDCP(t *testing.T) {
	python := torch(t)
	root := t.TempDir()
	var lines strings.Builder
	dirs := map[string]string{} // fixture
	for _, f := range fixtures {
		for _, under := range []string{"", "model"} {
			dir := filepath.Join(root, f.name+under)
			convertTo(t, "dcp", filepath.Join("testdata", f.path), dir, Options{Under: under})
			fmt.Fprintf(&lines, "%s\t%s\t%s\n", f.name, dir, under)
			dirs[dir] = f.name
		}
	}
	c := exec.Command(python, "-c", loadDCP)
	c.Stdin = strings.NewReader(lines.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for dir, name := range dirs {
		s, err := Open(dir + ".pt")
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, values(t, s, "param"), readWanted(t, name).values())
		s.Close()
	}
}

const loadMoments = `
import json, sys, torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
want = json.load(open("testdata/dcp.json"))
model = torch.nn.Module()
for name, w in want["tensors"].items():
    module, param = name.split(".")
    if not hasattr(model, module):
        model.add_module(module, torch.nn.Module())
    getattr(model, module).register_parameter(param, torch.nn.Parameter(torch.zeros(w["shape"], dtype=getattr(torch, w["dtype"]))))
optimizer = torch.optim.AdamW(model.parameters())
state = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}
dcp.load(state, checkpoint_id=sys.argv[1], planner=DefaultLoadPlanner(allow_partial_load=True))
set_optimizer_state_dict(model, optimizer, state["optimizer"])
for name, p in model.named_parameters():
    s = optimizer.state[p]
    mean = torch.tensor(want["exp_avg"][name]).reshape(p.shape)
    assert s["step"].item() == want["step"], (name, s["step"])
    assert torch.equal(s["exp_avg"].float(), mean), name
    assert torch.equal(s["exp_avg_sq"].float(), (mean / 2) ** 2), name
optimizer.step()
dcp.save({"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=sys.argv[2])
`

// TestTorchLoadsMoments: an optimizer of PyTorch goes on with the moments and the steps that writeDCP writes, and what it
// saves then reads back.
func TestTorchLoadsMoments(t *testing.T) {
	python := torch(t)
	dir, next := filepath.Join(t.TempDir(), "dcp"), filepath.Join(t.TempDir(), "next")
	convertTo(t, "dcp", "testdata/dcp", dir, Options{Under: "model"})
	if out, err := exec.Command(python, "-c", loadMoments, dir, next).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s, err := Open(next)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	same(t, "parameters", values(t, s, "param"), readWanted(t, "dcp").values())
}
