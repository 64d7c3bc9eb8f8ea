package main

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// TestCheckpoint measures a small checkpoint beside dd, saves of a fake run, and a small model beside a fake PyTorch.
func TestCheckpoint(t *testing.T) {
	if _, err := exec.LookPath("dd"); err != nil {
		t.Skip("SKIPPED: ", err)
	}
	trireme := script(t, "trireme", `case "$1" in
version) echo '{"kernels":"avx512"}' ;;
train)
	mkdir -p "$3"
	seconds=1
	case "$*" in *checkpoint.async=true*)
		seconds=2
		echo '{"step":6,"kind":"note","text":"a note"}' >"$3/events.jsonl"
		echo '{"step":7,"kind":"checkpoint","write_seconds":1.5,"stall_seconds":0.02}' >>"$3/events.jsonl"
		echo '{"step":12,"kind":"checkpoint","write_seconds":2.5,"stall_seconds":0.04}' >>"$3/events.jsonl" ;;
	esac
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do
		printf '{"step":%d,"loss":1,"time":"2026-01-01T00:00:%02dZ"}\n' $i $((i * seconds)) >>"$3/metrics.jsonl"
	done
	echo '{}' ;;
esac
`)
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
		"### Checkpoints in the background, model C, seconds\n\n| figure | with saves | without |", "| a step, with all between steps | 2 | 1 | 2.00 | 2.00 2.00 |\n| stall of a save, and a step | 0.03 | 1 | 0.03 | 0.03 0.03 |\n\nA checkpoint of 12 bytes per parameter was written in 2 s.\n",
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
