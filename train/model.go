package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/internal/conf"
	"trireme/model"
)

// ModelConfig is the node `model`: the network and its initial weights.
type ModelConfig struct {
	// Path is a Hugging Face model directory: config.json, model.safetensors or its index, and a
	// tokenizer. Commands also take a name on the hub, OWNER/NAME@REVISION, and a directory in an
	// object store, s3://BUCKET/PREFIX (docs/object-stores.md). Default "".
	Path string `yaml:"path"`
	// RandomWeights ignores the weights in path and initializes new ones. config.json and the
	// tokenizer are still read. If it is false, a path without weights is an error. Default false.
	RandomWeights bool `yaml:"random_weights"`
	// Config is the config.json of a model with random initial weights. Use it instead of path.
	// Default "".
	Config string `yaml:"config"`
	// Inline holds the contents of config.json, for random initial weights. Use it instead of path.
	Inline map[string]any `yaml:"inline"`
	// Task selects the head if the model family supports several. One of causal_lm | masked_lm |
	// sequence_classification. Empty: from the architecture in config.json. Default "".
	Task string `yaml:"task"`
	// NumLabels is the number of classes of a classifier. 0: from config.json. Default 0.
	NumLabels int `yaml:"num_labels"`
	// VocabSize resizes the vocabulary: a number, or auto for the tokenizer's size. Pretrained rows
	// keep their values and new rows are initialized. 0 keeps the size in config.json. Default 0.
	VocabSize VocabSize `yaml:"vocab_size"`
	// PadVocabToMultipleOf rounds the vocabulary size up to a multiple of this number. 0 does not
	// round. Default 0.
	PadVocabToMultipleOf int `yaml:"pad_vocab_to_multiple_of"`
	// AllowMissing lists parameters to initialize if path lacks them or has them in another shape:
	// names, or prefixes that end in *. Default [].
	AllowMissing []string `yaml:"allow_missing"`
	// AllowUnexpected lists tensors in path to ignore because the model has no such parameter:
	// names, or prefixes that end in *. Default [].
	AllowUnexpected []string `yaml:"allow_unexpected"`
	// Freeze lists parameters that do not train: names, or prefixes that end in *. Default [].
	Freeze []string `yaml:"freeze"`
}

const maxLabels = 1 << 16

// Validate checks that exactly one model is given.
func (c ModelConfig) Validate() error {
	var given []string
	if c.Path != "" {
		given = append(given, "path "+c.Path)
	}
	if c.Config != "" {
		given = append(given, "config "+c.Config)
	}
	if len(c.Inline) > 0 {
		given = append(given, "inline")
	}
	switch {
	case len(given) == 0:
		return fault.Try(errors.New("one of path, config and inline must be set"), "%s, or %s for random weights", fault.Set("model.path", "DIR"), fault.Set("model.config", "config.json"))
	case len(given) > 1:
		return fault.Try(fmt.Errorf("%s are set", strings.Join(given, " and ")), "one of them")
	case c.Task != "" && !slices.Contains(model.Tasks(), c.Task):
		return fault.At("task", "%w", conf.NotOneOf(c.Task, model.Tasks()...))
	case c.NumLabels < 0 || c.NumLabels > maxLabels:
		return fault.At("num_labels", "is %d: it must be between 0 and %d", c.NumLabels, maxLabels)
	case c.PadVocabToMultipleOf < 0 || c.PadVocabToMultipleOf > maxLabels:
		return fault.At("pad_vocab_to_multiple_of", "is %d: it must be between 0 and %d", c.PadVocabToMultipleOf, maxLabels)
	}
	return nil
}

// Read parses the model's config.json, from the directory, the file or inline. Errors name inline keys
// as model.inline.KEY.
func (c ModelConfig) Read(families model.Registry) (config *model.Config, err error) {
	switch {
	case len(c.Inline) > 0:
		var b []byte
		if b, err = json.Marshal(c.Inline); err != nil {
			return nil, fmt.Errorf("train: model.inline: %w", err)
		}
		config, err = families.ParseConfig("model.inline", b)
	case c.Path != "":
		config, err = families.ReadConfig(filepath.Join(c.Path, "config.json"))
	default:
		config, err = families.ReadConfig(c.Config)
	}
	if err != nil {
		return nil, err
	}
	return config.ForTask(c.Task)
}

func (c ModelConfig) randomInit() bool { return c.Path == "" || c.RandomWeights }

func (c ModelConfig) openWeights() (*safetensors.Files, error) {
	files, err := safetensors.OpenModel(c.Path)
	if errors.Is(err, safetensors.ErrNoWeights) {
		err = fault.Try(err, "%s to initialize new weights", fault.Set("model.random_weights", "true"))
	}
	return files, err
}
