package train

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"trireme/autograd"
	"trireme/fault"
	"trireme/nn"
	"trireme/tensor"
)

// Recompute is the node `activation_checkpointing`: activations that are recomputed in the
// backward pass instead of being kept. It changes memory and time, never the results.
type Recompute struct {
	// Enabled turns recomputation on. Without the other keys every layer is recomputed and only
	// its input is kept. Default false.
	Enabled bool `yaml:"enabled"`
	// EveryNLayers recomputes every n-th layer, beginning with the first. Default 1.
	EveryNLayers int `yaml:"every_n_layers"`
	// Part is the part of a layer that is recomputed. One of layer | attention | mlp |
	// attention_and_mlp. attention and mlp reach from the normalized input to what is added to
	// the residual; attention_and_mlp recomputes the two one at a time. Default layer.
	Part RecomputePart `yaml:"part"`
	// Keep is what is kept of a recomputed part because it is expensive to recompute. One of
	// nothing | attention | products. attention keeps the output of attention; products keeps
	// the matrix products that the backward pass reads, so that only attention is expensive.
	// Default nothing.
	Keep RecomputeKeep `yaml:"keep"`
	// Segments is the number of groups of layers that are recomputed as one, so that only the
	// input of a group is kept; sqrt is the square root of the number of layers, rounded up; 0 is
	// none. The last group is not recomputed. Default 0.
	Segments SegmentCount `yaml:"segments"`
	// Nested recomputes the layers of a segment once more, as the keys above say, while the segment
	// is recomputed: a third forward pass, but the memory of one layer instead of a segment.
	// Default false.
	Nested bool `yaml:"nested"`
	// Store is where kept inputs of layers and segments wait for the backward pass. One of memory |
	// disk. disk is a file that is read ahead. Default memory.
	Store RecomputeStore `yaml:"store"`
	// StorePath is the directory of that file; empty is output_dir. Default "".
	StorePath string `yaml:"store_path"`
	// MemoryThreshold delays recomputation until a step has used more than this share of a rank's
	// memory (device.memory_limit or available memory, divided by the ranks of the machine) on
	// any rank. 0 does not delay it. Default 0.
	MemoryThreshold float64 `yaml:"memory_threshold"`
	// CheckEveryNSteps is how often memory_threshold is checked. Default 100.
	CheckEveryNSteps int `yaml:"check_every_n_steps"`
}

// Validate checks what does not depend on the model.
func (c Recompute) Validate() error {
	var errs []error
	if c.EveryNLayers < 1 {
		errs = append(errs, fault.At("every_n_layers", "is %d: it must be at least 1", c.EveryNLayers))
	}
	again := nn.RecomputePolicy(c.policy(0))
	if again.Part == nn.MLP && again.Save == autograd.SaveAttention {
		errs = append(errs, fault.Try(fault.At("keep", "is attention, which part: mlp has none of"), "keep: nothing"))
	}
	switch flat := c.EveryNLayers <= 1 && again == (nn.RecomputePolicy{Part: nn.Layer}); {
	case c.Segments != 0 && !c.Nested && !flat:
		errs = append(errs, fault.Try(fault.At("segments", "is %s: of their layers nothing is kept, so that every_n_layers, part and keep say nothing", c.Segments), "%s, or leave those out", fault.Set("activation_checkpointing.nested", "true")))
	case c.Segments == 0 && c.Nested:
		errs = append(errs, fault.Try(fault.At("nested", "is true, and there are no segments"), "%s", fault.Set("activation_checkpointing.segments", "sqrt")))
	}
	if c.Store == onDisk && again.Part != nn.Layer {
		errs = append(errs, fault.Try(fault.At("store", "is %s, and part %s: what such a part is made of is kept in any case", c.Store, c.Part), "part: layer"))
	}
	if c.MemoryThreshold < 0 || c.MemoryThreshold > 1 || math.IsNaN(c.MemoryThreshold) {
		errs = append(errs, fault.At("memory_threshold", "is %v: it must be a share of memory, between 0 and 1", c.MemoryThreshold))
	}
	if c.CheckEveryNSteps < 1 && c.MemoryThreshold > 0 {
		errs = append(errs, fault.At("check_every_n_steps", "is %d: it must be at least 1", c.CheckEveryNSteps))
	}
	return errors.Join(errs...)
}

// open makes the place of inputs on a backend; nil is its memory.
func (c Recompute) open(b tensor.Backend, outputDir string) (*diskOffload, error) {
	dir, ok := c.Directory(outputDir)
	if !ok {
		return nil, nil
	}
	return newDiskOffload(b, dir)
}

// Directory is where inputs of layers rest, and whether they are on disk at all.
func (c Recompute) Directory(outputDir string) (dir string, ok bool) {
	dir = c.StorePath
	if dir == "" {
		dir = outputDir
	}
	return dir, c.Enabled && c.Store == onDisk
}

// policy is what layer i computes policy, where it does without a segment.
func (c Recompute) policy(i int) nn.RecomputePolicy {
	if i%max(1, c.EveryNLayers) != 0 {
		return nn.RecomputePolicy{}
	}
	return nn.RecomputePolicy{Part: parts[c.Part], Save: keeps[c.Keep]}
}

// Apply sets what the layers of a model compute again.
func (c Recompute) Apply(units []*nn.Unit) {
	segments := 0
	if c.Enabled {
		segments = c.Segments.of(len(nn.Layers(units)))
	}
	nn.Segments(units, segments)
	nn.Recompute(units, func(i int) nn.RecomputePolicy {
		if !c.Enabled || segments > 0 && !c.Nested {
			return nn.RecomputePolicy{}
		}
		return c.policy(i)
	})
}

// RecomputePart is what of a layer is computed again.
type RecomputePart string

var parts = map[RecomputePart]nn.Part{"": nn.Layer, "layer": nn.Layer, "attention": nn.Attention, "mlp": nn.MLP, "attention_and_mlp": nn.Attention | nn.MLP}

// Choices are the names.
func (RecomputePart) Choices() []string {
	return []string{"layer", "attention", "mlp", "attention_and_mlp"}
}

// RecomputeKeep is what is kept of a part that is computed again.
type RecomputeKeep string

var keeps = map[RecomputeKeep]autograd.SavePolicy{"attention": autograd.SaveAttention, "products": autograd.SaveMatMul}

// Choices are the names.
func (RecomputeKeep) Choices() []string { return []string{"nothing", "attention", "products"} }

// RecomputeStore is where inputs wait.
type RecomputeStore string

const onDisk RecomputeStore = "disk"

// Choices are the names.
func (RecomputeStore) Choices() []string { return []string{"memory", string(onDisk)} }

// SegmentCount is a number of segments; 0 is none.
type SegmentCount int

// SqrtSegments is as many segments as the root of the number of layers.
const SqrtSegments SegmentCount = -1

const sqrtName = "sqrt"

// UnmarshalText reads a number, or sqrt.
func (s *SegmentCount) UnmarshalText(text []byte) error {
	if string(text) == sqrtName {
		*s = SqrtSegments
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is neither a number of segments nor %s", text, sqrtName)
	}
	*s = SegmentCount(n)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (s SegmentCount) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s SegmentCount) String() string {
	if s == SqrtSegments {
		return sqrtName
	}
	return strconv.Itoa(int(s))
}

// of is the number of segments of so many layers.
func (s SegmentCount) of(layers int) int {
	if s == SqrtSegments {
		return int(math.Ceil(math.Sqrt(float64(layers))))
	}
	return min(int(s), layers)
}
