package bert

import (
	"math"
	"strings"
	"testing"

	"trireme/internal/backend/meta"
	"trireme/model"
)

const small = `{"architectures": ["BertForSequenceClassification"], "vocab_size": 40, "hidden_size": 16, "intermediate_size": 28,
	"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 16}`

// FuzzParseConfig: any config.json is rejected or has countable sizes.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(small, "SequenceClassification", "MaskedLM", 1)))
	f.Add([]byte(strings.Replace(small, `40`, `268435456`, 1)))
	f.Add([]byte(strings.Replace(small, `40`, `40, "id2label": {"0": "no", "1": "yes", "2": "perhaps"}, "label2id": {"no": 0}, "classifier_dropout": null`, 1)))
	f.Add([]byte(strings.Replace(small, `40`, `40, "num_labels": -5`, 1)))
	f.Add([]byte(`{"vocab_size": 268435456, "hidden_size": 16777216, "intermediate_size": 67108864, "num_hidden_layers": 16384, "num_attention_heads": 65536}`))
	f.Add([]byte(`{"hidden_size": -4, "num_attention_heads": -2}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil {
			return
		}
		if n := c.size(); !(n*8 < math.MaxInt64) {
			t.Fatalf("%s was accepted: %v parameters", data, n)
		}
		if c.NumHiddenLayers > 1<<8 {
			return
		}
		m, err := New(meta.New(), c, min(4, c.MaxPositionEmbeddings))
		if err != nil {
			t.Fatalf("%s was accepted: %v", data, err)
		}
		for _, p := range model.Params(m) {
			if n := p.Shape.Elems(); n <= 0 {
				t.Fatalf("%s was accepted: %s has %d elements", data, p.Name, n)
			}
		}
		if n := model.CountParams(m); float64(n) > c.size() {
			t.Fatalf("%s has %d parameters, size() is %v", data, n, c.size())
		}
	})
}

func TestRefused(t *testing.T) {
	for what, c := range map[string]struct{ to, err string }{
		"one label":                     {`"num_labels": 1`, "num_labels is 1"},
		"two numbers of labels":         {`"num_labels": 3, "id2label": {"0": "a", "1": "b"}`, "id2label has 2"},
		"numbers in place of labels":    {`"problem_type": "regression"`, `problem_type "regression"`},
		"relative positions":            {`"position_embedding_type": "relative_key"`, "position_embedding_type"},
		"a decoder":                     {`"is_decoder": true`, "is_decoder"},
		"layers without some heads":     {`"pruned_heads": {"1": [0]}`, "pruned_heads"},
		"an activation that is unknown": {`"hidden_act": "relu"`, `hidden_act: "relu"`},
		"dropout of everything":         {`"classifier_dropout": 1`, "classifier_dropout"},
		"heads that do not divide":      {`"num_attention_heads": 5`, "num_attention_heads 5"},
		"no token types":                {`"type_vocab_size": 0`, "type_vocab_size"},
		"quantized weights":             {`"quantization_config": {}`, "quantization_config"},
		"more parameters than can be":   {`"num_hidden_layers": 16384, "hidden_size": 16777216`, "parameters"},
	} {
		text := strings.Replace(small, "\n\t\"num_hidden_layers\": 2, \"num_attention_heads\": 4", "\"num_hidden_layers\": 2, \"num_attention_heads\": 4", 1)
		text = strings.TrimSuffix(text, "}") + ", " + c.to + "}"
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestLabels: the number of labels of a configuration.
func TestLabels(t *testing.T) {
	for text, want := range map[string]int{
		``:                  2,
		`, "num_labels": 5`: 5,
		`, "id2label": {"0": "a", "1": "b", "2": "c"}`:                 3,
		`, "num_labels": 2, "id2label": {"0": "a", "1": "b"}`:          2,
		`, "num_labels": null, "id2label": null, "problem_type": null`: 2,
	} {
		c, err := ParseConfig([]byte(strings.TrimSuffix(small, "}") + text + "}"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		m, err := New(meta.New(), c, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Info().Labels; got != want {
			t.Errorf("%s: %d labels, want %d", text, got, want)
		}
	}
}

// TestNames: names in files, and tensors that may be ignored or missing.
func TestNames(t *testing.T) {
	for parameter, want := range map[string]string{
		"bert.embeddings.LayerNorm.weight":           "embeddings.LayerNorm.weight bert.embeddings.LayerNorm.gamma embeddings.LayerNorm.gamma",
		"bert.encoder.layer.3.output.LayerNorm.bias": "encoder.layer.3.output.LayerNorm.bias bert.encoder.layer.3.output.LayerNorm.beta encoder.layer.3.output.LayerNorm.beta",
		"bert.embeddings.word_embeddings.weight":     "embeddings.word_embeddings.weight",
		"cls.predictions.transform.LayerNorm.weight": "cls.predictions.transform.LayerNorm.gamma",
		"cls.predictions.bias":                       "cls.predictions.decoder.bias",
		"classifier.weight":                          "",
	} {
		if got := strings.Join(aliases(parameter), " "); got != want {
			t.Errorf("%s: %s, want %s", parameter, got, want)
		}
	}
	for name, want := range map[string]bool{
		"classifier.bias": true, "bert.pooler.dense.weight": true, "pooler.dense.bias": true, "cls.seq_relationship.weight": true,
		"bert.embeddings.position_ids": true, "bert.encoder.layer.0.output.dense.weight": false, "embeddings.word_embeddings.weight": false, "classifiers": false,
	} {
		if got := ignoreUnexpected(name); got != want {
			t.Errorf("%s is ignored: %t, want %t", name, got, want)
		}
	}
	if isHead("bert.embeddings.position_ids") || isHead("bert.embeddings.word_embeddings.weight") {
		t.Error("a part of the encoder may be missing")
	}
}
