package foreign

import (
	"fmt"
	"slices"
	"strings"

	"trireme/internal/conf"
)

const (
	freeArchitecture     = "FreeTransformerForCausalLM"
	baselineArchitecture = "FreeTransformerBaselineForCausalLM"
	maxExactBits         = 20
	noDropout            = "this model has no dropout"
)

// hasInlineModel reports whether the file's model applies.
func (r *reader) hasInlineModel() bool {
	_, ok := r.find("model")
	return ok && !r.options.Model
}

// readFreeModel assigns the defaults of the trainer's ModelConfig. A file without latent keys is the
// baseline's.
func (r *reader) readFreeModel() {
	if !r.hasInlineModel() {
		return
	}
	heads := "32"
	if k, ok := r.find("model", "num_heads"); ok && k.Text != "" {
		heads = k.Text
	}
	pairs := []string{
		"architectures", "[" + baselineArchitecture + "]", "model_type", "free_transformer", "vocab_size", "32000", "hidden_size", "4096",
		"num_hidden_layers", "32", "num_attention_heads", "32", "num_key_value_heads", heads, "intermediate_size", "11008", "max_position_embeddings", "2048",
	}
	if r.hasLatent() {
		pairs = append(pairs, "architectures", "["+freeArchitecture+"]", "latent_bits", "16", "free_bits", "0.5")
	}
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = inlineKey + pairs[i]
	}
	r.byDefault("its ModelConfig's default", pairs...)
}

// hasLatent reports whether the model is not the baseline.
func (r *reader) hasLatent() bool {
	for _, path := range [][]string{
		{"model", "latent_dim"}, {"model", "split_layer"}, {"training", "kappa_free_bits"}, {"training", "free_bits"}, {"training", "beta_kl"}, {"training", "kl_weight"},
	} {
		if hasKey(r, path...) {
			return true
		}
	}
	return false
}

func hasKey(r *reader, path ...string) bool {
	_, ok := r.find(path...)
	return ok
}

// modelKey is a rule for a key of the model, which another model overrides.
func modelKey(of rule) rule {
	return custom(of.doc, func(r *reader, k key) {
		if !r.hasInlineModel() {
			r.note(k, "has no effect with another model")
			return
		}
		of.apply(r, k)
	})
}

func freeModelKeys() keys {
	const one = "there is one model architecture"
	ks := keys{
		"latent_dim":        custom("`model.inline.latent_bits`; above 20 in factored form", latentDim),
		"split_layer":       custom("must be half of num_layers", splitLayer),
		"encoder_layers":    required("1", "the encoder is one layer"),
		"dropout":           ignored(noDropout),
		"attention_dropout": ignored(noDropout),
		"use_rmsnorm":       required("true", one), "use_rope": required("true", one), "use_swiglu": required("true", one),
		"hidden_act":         required("silu", one),
		"injection_method":   required("additive", one),
		"injection_layers":   ignored("the latent is injected in the middle layer"),
		"gumbel_temperature": ignored("sampling has no temperature"), "binary_threshold": ignored("sampling has no threshold"),
	}
	for theirs, ours := range map[string]string{
		"vocab_size": "vocab_size", "hidden_dim": "hidden_size", "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads",
		"num_key_value_heads": "num_key_value_heads", "ffn_hidden_dim": "intermediate_size", "intermediate_size": "intermediate_size",
		"max_seq_len": "max_position_embeddings",
	} {
		ks[theirs] = to(inlineKey+ours, integer)
	}
	ks["num_kv_heads"] = nullable(to(inlineKey+"num_key_value_heads", integer))
	for _, name := range []string{"rope_theta", "rms_norm_eps", "initializer_range"} {
		ks[name] = to(inlineKey+name, number)
	}
	for name, of := range ks {
		ks[name] = modelKey(of)
	}
	return ks
}

// latentDim assigns H, and the factored form if there are too many codes for a table.
func latentDim(r *reader, k key) {
	if !r.checkValue(k, integer) {
		return
	}
	r.assign(k, inlineKey+"latent_bits", k.Text)
	if bits, _ := k.Int(); bits > maxExactBits {
		r.assign(k, inlineKey+"latent_mode", "factored")
		r.note(k, fmt.Sprintf("becomes model.inline.latent_mode factored: 2^%d codes are too many for a table", bits))
	}
}

// splitLayer refuses positions of the latent other than the middle.
func splitLayer(r *reader, k key) {
	if k.Kind == conf.Null || !r.checkValue(k, integer) {
		return
	}
	layers, _ := conf.Value{Kind: conf.Scalar, Text: "32"}, 0
	if n, ok := r.find("model", "num_layers"); ok {
		layers = n.Value
	}
	n, err := layers.Int()
	if split, _ := k.Int(); err == nil && split != n/2 {
		r.fail(k, "is %d: the latent is injected in the middle of %d layers, after layer %d. try: %d", split, n, n/2, n/2)
	}
}

// datasetName assigns the data set, unless it is synthetic.
func datasetName(r *reader, k key) {
	switch {
	case !r.checkValue(k, textual):
	case strings.HasPrefix(k.Text, "synthetic"):
		r.note(k, "is not supported. Set data.path")
	default:
		r.assign(k, "data.path", k.Text)
	}
}

// numbers is a rule for a list of count numbers.
func numbers(path string, count int) rule {
	return custom("`"+path+"`", func(r *reader, k key) {
		wrong := func(v conf.Value) bool { return number(v) != nil }
		if k.Kind != conf.List || len(k.Items) != count || slices.ContainsFunc(k.Items, wrong) {
			r.fail(k, "is %s, not a list of %d numbers", k.Describe(), count)
			return
		}
		var texts []string
		for _, v := range k.Items {
			texts = append(texts, v.Text)
		}
		r.assign(k, path, "["+strings.Join(texts, ", ")+"]")
	})
}
