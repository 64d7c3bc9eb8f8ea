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

// Recompute is the node `activation_checkpointing`: recomputing activations in the backward pass
// instead of saving them in forward. It changes memory and time, never results.
type Recompute struct {
	// Enabled enables recomputation. By default every layer is recomputed and only its input is
	// saved. Default false.
	Enabled bool `yaml:"enabled"`
	// EveryNLayers recomputes every n-th layer, starting with the first. Default 1.
	EveryNLayers int `yaml:"every_n_layers"`
	// Part is the part of each layer to recompute. One of layer | attention | mlp |
	// attention_and_mlp. attention and mlp run from the normalized input to the value added to
	// the residual; attention_and_mlp recomputes them one at a time. Default layer.
	Part RecomputePart `yaml:"part"`
	// Keep saves the activations of a recomputed part that are expensive to recompute. One of
	// nothing | attention | products. attention saves the output of attention; products saves the
	// matrix products that the backward pass reads, so that attention is the only expensive
	// operation left to recompute. Default nothing.
	Keep RecomputeKeep `yaml:"keep"`
	// Segments splits the layers into this many segments, each recomputed as a whole, so that
	// only the input of each segment is saved. The last segment is not recomputed. sqrt is the
	// square root of the number of layers, rounded up; 0 is off. Default 0.
	Segments SegmentCount `yaml:"segments"`
	// Nested recomputes the layers of a segment again, as the keys above say, while the segment
	// is recomputed. This costs a third forward pass and needs the memory of one layer instead
	// of one segment. Default false.
	Nested bool `yaml:"nested"`
	// Store is where saved inputs of layers and segments are kept until the backward pass. One of
	// memory | disk. disk is a file with read-ahead. Default memory.
	Store RecomputeStore `yaml:"store"`
	// StorePath is the directory of that file. Empty: output_dir. Default "".
	StorePath string `yaml:"store_path"`
	// MemoryThreshold starts recomputation only once a step uses more than this fraction of a
	// rank's memory on any rank. A rank's memory is device.memory_limit or the available memory,
	// divided by the ranks of the machine. 0 recomputes from the first step. Default 0.
	MemoryThreshold float64 `yaml:"memory_threshold"`
	// CheckEveryNSteps is how often memory_threshold is checked, in steps. Default 100.
	CheckEveryNSteps int `yaml:"check_every_n_steps"`
}

// Validate checks the keys that do not depend on the model.
func (c Recompute) Validate() error {
	var errs []error
	if c.EveryNLayers < 1 {
		errs = append(errs, fault.At("every_n_layers", "is %d: it must be at least 1", c.EveryNLayers))
	}
	again := nn.RecomputePolicy(c.policy(0))
	if again.Part == nn.MLP && again.Save == autograd.SaveAttention {
		errs = append(errs, fault.Try(fault.At("keep", "is attention, but part is mlp, which has no attention"), "keep: nothing"))
	}
	switch flat := c.EveryNLayers <= 1 && again == (nn.RecomputePolicy{Part: nn.Layer}); {
	case c.Segments != 0 && !c.Nested && !flat:
		errs = append(errs, fault.Try(fault.At("segments", "is %s: without nested, every_n_layers, part and keep have no effect", c.Segments), "%s, or remove them", fault.Set("activation_checkpointing.nested", "true")))
	case c.Segments == 0 && c.Nested:
		errs = append(errs, fault.Try(fault.At("nested", "is true, but segments is 0"), "%s", fault.Set("activation_checkpointing.segments", "sqrt")))
	}
	if c.Store == onDisk && again.Part != nn.Layer {
		errs = append(errs, fault.Try(fault.At("store", "is %s, but part is %s: only inputs of whole layers can be stored on disk", c.Store, c.Part), "part: layer"))
	}
	if c.MemoryThreshold < 0 || c.MemoryThreshold > 1 || math.IsNaN(c.MemoryThreshold) {
		errs = append(errs, fault.At("memory_threshold", "is %v: it must be a fraction of memory, between 0 and 1", c.MemoryThreshold))
	}
	if c.CheckEveryNSteps < 1 && c.MemoryThreshold > 0 {
		errs = append(errs, fault.At("check_every_n_steps", "is %d: it must be at least 1", c.CheckEveryNSteps))
	}
	return errors.Join(errs...)
}

// open returns the file for saved inputs; nil if they stay in memory.
func (c Recompute) open(b tensor.Backend, outputDir string) (*diskOffload, error) {
	dir, ok := c.Directory(outputDir)
	if !ok {
		return nil, nil
	}
	return newDiskOffload(b, dir)
}

// Directory returns the directory of saved inputs, and whether they are stored on disk.
func (c Recompute) Directory(outputDir string) (dir string, ok bool) {
	dir = c.StorePath
	if dir == "" {
		dir = outputDir
	}
	return dir, c.Enabled && c.Store == onDisk
}

// policy returns what to recompute of layer i outside of segments.
func (c Recompute) policy(i int) nn.RecomputePolicy {
	if i%max(1, c.EveryNLayers) != 0 {
		return nn.RecomputePolicy{}
	}
	return nn.RecomputePolicy{Part: parts[c.Part], Save: keeps[c.Keep]}
}

// Apply configures recomputation of a model's layers.
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

// RecomputePart is the part of a layer to recompute.
type RecomputePart string

var parts = map[RecomputePart]nn.Part{"": nn.Layer, "layer": nn.Layer, "attention": nn.Attention, "mlp": nn.MLP, "attention_and_mlp": nn.Attention | nn.MLP}

// Choices returns the allowed values.
func (RecomputePart) Choices() []string {
	return []string{"layer", "attention", "mlp", "attention_and_mlp"}
}

// RecomputeKeep selects the activations of a recomputed part that are saved.
type RecomputeKeep string

var keeps = map[RecomputeKeep]autograd.SavePolicy{"attention": autograd.SaveAttention, "products": autograd.SaveMatMul}

// Choices returns the allowed values.
func (RecomputeKeep) Choices() []string { return []string{"nothing", "attention", "products"} }

// RecomputeStore is where saved inputs are kept.
type RecomputeStore string

const onDisk RecomputeStore = "disk"

// Choices returns the allowed values.
func (RecomputeStore) Choices() []string { return []string{"memory", string(onDisk)} }

// SegmentCount is a number of segments; 0 is none.
type SegmentCount int

// SqrtSegments is the square root of the number of layers, rounded up.
const SqrtSegments SegmentCount = -1

const sqrtName = "sqrt"

// UnmarshalText parses a number or sqrt.
func (s *SegmentCount) UnmarshalText(text []byte) error {
	if string(text) == sqrtName {
		*s = SqrtSegments
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number of segments or %s", text, sqrtName)
	}
	*s = SegmentCount(n)
	return nil
}

// MarshalText returns the number or sqrt.
func (s SegmentCount) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s SegmentCount) String() string {
	if s == SqrtSegments {
		return sqrtName
	}
	return strconv.Itoa(int(s))
}

func (s SegmentCount) of(layers int) int {
	if s == SqrtSegments {
		return int(math.Ceil(math.Sqrt(float64(layers))))
	}
	return min(int(s), layers)
}
