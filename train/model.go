package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"trireme/checkpoint/safetensors"
	"trireme/model"
)

// ModelConfig is the node `model`: where the network and its first weights come from.
type ModelConfig struct {
	// Path is a Hugging Face directory: config.json and model.safetensors, or its index. The
	// commands also take a name on the hub, OWNER/NAME@REVISION.
	Path string `yaml:"path"`
	// RandomWeights draws the weights of path's model and reads none; its configuration and
	// its tokenizer are used. Default false: a path without weights is an error.
	RandomWeights bool `yaml:"random_weights"`
	// Config is a config.json for random weights, in place of path.
	Config string `yaml:"config"`
	// Inline is config.json itself, key by key, for random weights, in place of path.
	Inline map[string]any `yaml:"inline"`
	// Task is what the model is trained for, where its family can do more than config.json's
	// architecture says: causal_lm | masked_lm | sequence_classification. Default: as that says.
	Task string `yaml:"task"`
	// NumLabels, where not 0, is how many labels a classifier tells apart, over config.json's.
	NumLabels int `yaml:"num_labels"`
	// VocabSize, where not 0, is the size of the vocabulary, over config.json's; auto is the
	// tokenizer's. Rows that the files have keep their values; those that they lack are drawn as
	// those of a new model are.
	VocabSize VocabSize `yaml:"vocab_size"`
	// PadVocabToMultipleOf rounds the size of the vocabulary up. 0 does not.
	PadVocabToMultipleOf int `yaml:"pad_vocab_to_multiple_of"`
	// AllowMissing lists parameters that are drawn at random where the files lack them, or have
	// them in another shape: a name, or a prefix that ends in *.
	AllowMissing []string `yaml:"allow_missing"`
	// AllowUnexpected lists tensors of the files that are left unread, in the same way.
	AllowUnexpected []string `yaml:"allow_unexpected"`
	// Freeze lists parameters that do not train, in the same way.
	Freeze []string `yaml:"freeze"`
}

// maxLabels bounds the names of labels that config.json is given.
const maxLabels = 1 << 16

// Validate checks that there is one model.
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
		return errors.New("train: model names no path and no config. try: --model_name DIR, or --set model.config=config.json for random weights")
	case len(given) > 1:
		return fmt.Errorf("train: model has both %s. try: one of them", strings.Join(given, " and "))
	case c.Task != "" && !slices.Contains(model.Tasks(), c.Task):
		return fmt.Errorf("train: task %q is not one of %s", c.Task, strings.Join(model.Tasks(), ", "))
	case c.NumLabels < 0 || c.NumLabels > maxLabels:
		return fmt.Errorf("train: num_labels is %d: it must be between 0 and %d", c.NumLabels, maxLabels)
	case c.PadVocabToMultipleOf < 0 || c.PadVocabToMultipleOf > maxLabels:
		return fmt.Errorf("train: pad_vocab_to_multiple_of is %d: it must be between 0 and %d", c.PadVocabToMultipleOf, maxLabels)
	}
	return nil
}

// Read finds the model's config.json: in the directory, in the file, or in the configuration
// itself, where a message names a key as model.inline.KEY.
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
	return config.For(c.Task)
}

// drawn says that the first weights are random.
func (c ModelConfig) drawn() bool { return c.Path == "" || c.RandomWeights }

// openWeights opens the directory's tensors.
func (c ModelConfig) openWeights() (*safetensors.Files, error) {
	files, err := safetensors.OpenModel(c.Path)
	if errors.Is(err, safetensors.ErrNoWeights) {
		err = fmt.Errorf("%w. try: --set model.random_weights=true, to draw them", err)
	}
	return files, err
}
