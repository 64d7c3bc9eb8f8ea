package bert

import (
	"errors"
	"fmt"
	"slices"

	"trireme/fault"
	"trireme/model"
	"trireme/tensor"
)

const (
	forClasses = "BertForSequenceClassification"
	forMasked  = "BertForMaskedLM"
)

// Family is BERT.
var Family = model.Family{
	Name:          "bert",
	Architectures: []string{forClasses, forMasked},
	ModelTypes:    []string{"bert"},
	Bases:         []string{"BertModel", "BertForPreTraining"},
	Modules:       []string{"*Layer", "*Embeddings", "*Encoder", "*Attention", "*SelfAttention", "*SelfOutput", "*Intermediate", "*Output", "*Pooler", "*Model"},
	New: func(b tensor.Backend, config []byte, positions int) (model.Model, error) {
		c, err := ParseConfig(config)
		if err != nil {
			return nil, err
		}
		return New(b, c, positions)
	},
	Aliases:          aliases,
	IgnoreMissing:    isHead,
	IgnoreUnexpected: ignoreUnexpected,
}

// Config is the part of config.json that defines the network.
type Config struct {
	Architectures             []string `json:"architectures"`
	ModelType                 string   `json:"model_type"`
	HiddenAct                 string   `json:"hidden_act"`
	VocabSize                 int      `json:"vocab_size"`
	HiddenSize                int      `json:"hidden_size"`
	IntermediateSize          int      `json:"intermediate_size"`
	NumHiddenLayers           int      `json:"num_hidden_layers"`
	NumAttentionHeads         int      `json:"num_attention_heads"`
	MaxPositionEmbeddings     int      `json:"max_position_embeddings"`
	TypeVocabSize             int      `json:"type_vocab_size"`
	LayerNormEps              float64  `json:"layer_norm_eps"`
	HiddenDropoutProb         float64  `json:"hidden_dropout_prob"`
	AttentionProbsDropoutProb float64  `json:"attention_probs_dropout_prob"`
	ClassifierDropout         *float64 `json:"classifier_dropout,omitempty"` // nil: HiddenDropoutProb
	InitializerRange          float64  `json:"initializer_range"`
	// PadTokenID is the row of the word embedding without gradient; nil for none, also if
	// config.json lacks the key. (transformers, which always writes it, defaults to 0.)
	PadTokenID        *int `json:"pad_token_id,omitempty"`
	TieWordEmbeddings bool `json:"tie_word_embeddings"` // the decoder of the masked head

	NumLabels   int            `json:"num_labels,omitempty"` // 0: the length of ID2Label, or 2
	ID2Label    map[string]any `json:"id2label,omitempty"`
	ProblemType string         `json:"problem_type,omitempty"`

	PositionEmbeddingType string           `json:"position_embedding_type,omitempty"`
	IsDecoder             bool             `json:"is_decoder,omitempty"`
	AddCrossAttention     bool             `json:"add_cross_attention,omitempty"`
	PrunedHeads           map[string][]int `json:"pruned_heads,omitempty"`
	Quantization          any              `json:"quantization_config,omitempty"`
}

// ParseConfig reads config.json with transformers' defaults and validates it.
func ParseConfig(data []byte) (Config, error) {
	c := Config{
		HiddenAct: "gelu", MaxPositionEmbeddings: 512, TypeVocabSize: 2, LayerNormEps: 1e-12, HiddenDropoutProb: 0.1,
		AttentionProbsDropoutProb: 0.1, InitializerRange: 0.02, TieWordEmbeddings: true,
	}
	if err := model.Decode(data, &c); err != nil {
		return Config{}, err
	}
	return c, c.validate()
}

// classifies reports whether the head is a classifier.
func (c Config) classifies() bool { return slices.Contains(c.Architectures, forClasses) }

// labels returns the number of classes.
func (c Config) labels() int {
	switch {
	case c.NumLabels != 0:
		return c.NumLabels
	case len(c.ID2Label) > 0:
		return len(c.ID2Label)
	}
	return 2
}

func (c Config) validate() error {
	if err := model.CheckSizes([]model.Size{
		{Key: "vocab_size", N: c.VocabSize, Max: 1 << 28},
		{Key: "hidden_size", N: c.HiddenSize, Max: 1 << 24},
		{Key: "intermediate_size", N: c.IntermediateSize, Max: 1 << 26},
		{Key: "num_hidden_layers", N: c.NumHiddenLayers, Max: 1 << 14},
		{Key: "num_attention_heads", N: c.NumAttentionHeads, Max: 1 << 16},
		{Key: "max_position_embeddings", N: c.MaxPositionEmbeddings, Max: 1 << 28},
		{Key: "type_vocab_size", N: c.TypeVocabSize, Max: 1 << 20},
	}, c.size); err != nil {
		return err
	}
	for _, d := range []struct {
		key string
		p   float64
	}{{"hidden_dropout_prob", c.HiddenDropoutProb}, {"attention_probs_dropout_prob", c.AttentionProbsDropoutProb}, {"classifier_dropout", c.classifierDropout()}} {
		if err := model.CheckDropout(d.key, d.p); err != nil {
			return err
		}
	}
	switch {
	case !c.classifies() && !slices.Contains(c.Architectures, forMasked):
		return fault.Try(fmt.Errorf("architectures %v has neither %s nor %s", c.Architectures, forClasses, forMasked), "%s", fault.Set("model.task", "sequence_classification"))
	case c.HiddenSize%c.NumAttentionHeads != 0:
		return fault.Try(fault.At("hidden_size", "%d is not a multiple of num_attention_heads %d", c.HiddenSize, c.NumAttentionHeads), `"hidden_size": %d`, model.NextMultiple(c.HiddenSize, c.NumAttentionHeads))
	case !(c.LayerNormEps > 0):
		return fault.At("layer_norm_eps", "is %v: it must be positive", c.LayerNormEps)
	case !(c.InitializerRange >= 0):
		return fault.At("initializer_range", "is %v: it must not be negative", c.InitializerRange)
	case c.PositionEmbeddingType != "" && c.PositionEmbeddingType != "absolute":
		return fault.Try(fault.At("position_embedding_type", "%q is not supported by bert: use absolute", c.PositionEmbeddingType), "another model")
	case c.IsDecoder || c.AddCrossAttention:
		return fault.Try(errors.New("is_decoder or add_cross_attention is true: bert is an encoder"), "an encoder model")
	case len(c.PrunedHeads) > 0:
		return fault.Try(fault.At("pruned_heads", "is set: bert does not support layers with fewer heads"), "the model before pruning")
	case c.Quantization != nil:
		return fault.Try(fault.At("quantization_config", "is set: quantized weights cannot be trained"), "the original model")
	}
	if _, err := model.GELU(c.HiddenAct); err != nil {
		return fault.At("hidden_act", "%w", err)
	}
	return c.validateLabels()
}

func (c Config) validateLabels() error {
	switch n := c.labels(); {
	case !c.classifies():
		return nil
	case c.NumLabels != 0 && len(c.ID2Label) > 0 && c.NumLabels != len(c.ID2Label):
		return fault.Try(fault.At("num_labels", "is %d, but id2label has %d", c.NumLabels, len(c.ID2Label)), "%s", fault.Set("model.num_labels", len(c.ID2Label)))
	case n < 2 || n > 1<<16:
		return fault.Try(fault.At("num_labels", "is %d: it must be between 2 and %d", n, 1<<16), "%s", fault.Set("model.num_labels", "N"))
	case c.ProblemType != "" && c.ProblemType != "single_label_classification":
		return fault.Try(fault.At("problem_type", "%q is not supported: use single_label_classification", c.ProblemType), "rows with one label each")
	}
	return nil
}

func (c Config) classifierDropout() float64 {
	if c.ClassifierDropout != nil {
		return *c.ClassifierDropout
	}
	return c.HiddenDropoutProb
}

// size returns the approximate number of parameters, as a float64 because an int may overflow.
func (c Config) size() float64 {
	d, f := float64(c.HiddenSize), float64(c.IntermediateSize)
	tables := 2*float64(c.VocabSize) + float64(c.MaxPositionEmbeddings) + float64(c.TypeVocabSize) + float64(max(0, c.labels()))
	return tables*(d+1) + float64(c.NumHiddenLayers+1)*(d+1)*(4*d+2*f+10)
}
