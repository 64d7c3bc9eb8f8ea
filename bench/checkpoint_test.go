package main

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// TestCheckpoint measures a small checkpoint beside dd, and a small model beside a fake PyTorch.
func TestCheckpoint(t *testing.T) {
	if _, err := exec.LookPath("dd"); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	trireme, _ := fakes(t, "/dev/null")
	python := script(t, "python3", `case "$2" in
version) echo '{"torch":"2.9.1","instructions":"AVX512"}' ;;
load) [ -s "$4" ] && echo '{"seconds":0.001}' ;;
esac
`)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-trireme", trireme, "-python", python, "-pairs", "2", "-mib", "8", "checkpoint"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### Checkpoint of 8 MiB, MB per second\n\n| figure | trireme | dd |", "| save, synced | ", "| load, from memory | ",
		"### Model of 29 MB in bfloat16, MB of the file per second\n\n| figure | trireme | safetensors in PyTorch |", "| into bfloat16, from memory | ", "| into float32, from memory | ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	if canDropCache && strings.Count(out.String(), "from disk | ") != 3 {
		t.Error(out.String())
	}
	for args, want := range map[string]string{"-mib 9 checkpoint": "-mib is 9: it must be a multiple of 8", "-mib 0 checkpoint": "-mib is 0"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
