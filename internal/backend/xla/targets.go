package xla

import (
	"embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"trireme/fault"
	"trireme/internal/backend/xla/cudnn"
)

// targets are target configurations of openxla/xla (xla/backends/gpu/target_config/specs, Apache-2.0).
//
//go:embed targets/*.txtpb
var targets embed.FS

// Target describes a GPU that the machine may lack.
type Target struct {
	Name   string // the GPU's
	Config string // a GpuTargetConfigProto as text
	Memory int64  // bytes
	// GPU has the compute capability. The version of cuDNN in Config is that of the machine where
	// Config was made, so it is unknown.
	GPU cudnn.Device
}

// maxTarget limits the size of a target's file.
const maxTarget = 1 << 20

// TargetNames returns the names of known targets.
func TargetNames() []string { return []string{"h100", "h200"} }

// FindTarget returns a known target, or the one in a file.
func FindTarget(name string) (Target, error) {
	if slices.Contains(TargetNames(), name) {
		text, err := targets.ReadFile("targets/" + name + ".txtpb")
		if err != nil {
			return Target{}, err
		}
		return parseTarget(string(text))
	}
	known := strings.Join(TargetNames(), ", ")
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return Target{}, fault.Try(fmt.Errorf("device: %q is neither a target (%s) nor a file", name, known), "h200, or the file of a target configuration of openxla/xla")
	}
	if info.Size() > maxTarget {
		return Target{}, fmt.Errorf("device: %s has %d bytes: a target configuration has a few thousand", name, info.Size())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return Target{}, err
	}
	t, err := parseTarget(string(text))
	if err != nil {
		return Target{}, fault.Try(fmt.Errorf("device: %s: %w", name, err), "%s, or a file of xla/backends/gpu/target_config/specs in openxla/xla", known)
	}
	return t, nil
}

var (
	targetName   = regexp.MustCompile(`(?m)^device_description_str:\s*"([^"\n]*)"`)
	targetCUDA   = regexp.MustCompile(`cuda_compute_capability\s*\{\s*major:\s*([0-9]{1,4})(?:\s+minor:\s*([0-9]{1,4}))?`)
	targetMemory = regexp.MustCompile(`(?m)^\s*device_memory_size:\s*([0-9]+)\s*$`)
)

// parseTarget reads the fields of a GpuTargetConfigProto that Target has. The compiler reads the others.
func parseTarget(text string) (Target, error) {
	name, memory := targetName.FindStringSubmatch(text), targetMemory.FindStringSubmatch(text)
	if !strings.Contains(text, "gpu_device_info") || name == nil || memory == nil {
		return Target{}, fmt.Errorf("not the text of a GpuTargetConfigProto (gpu_device_info with device_memory_size, device_description_str)")
	}
	n, err := strconv.ParseInt(memory[1], 10, 64)
	if err != nil {
		return Target{}, fmt.Errorf("device_memory_size: %w", err)
	}
	t := Target{Name: name[1], Config: text, Memory: n}
	if v := targetCUDA.FindStringSubmatch(text); v != nil {
		t.GPU.Major, _ = strconv.Atoi(v[1])
		t.GPU.Minor, _ = strconv.Atoi(v[2]) // absent is 0
	}
	return t, nil
}
