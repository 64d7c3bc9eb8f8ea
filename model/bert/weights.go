package bert

import "strings"

const (
	prefix     = "bert."       // of the encoder in files with a head
	pooler     = "bert.pooler" // between the encoder and a classifier
	classifier = "classifier"
	masked     = "cls.predictions"
	// decoderBias is a second name of masked's bias. transformers 4 stores one tensor under both
	// names. In transformers 5 they are one tensor only if the decoder is tied; else logits use
	// this one, the other is unused, and files have both.
	decoderBias = masked + ".decoder.bias"
)

// aliases: files of the encoder alone lack the prefix, and the oldest use TensorFlow's names of
// norm weight and bias.
func aliases(parameter string) []string {
	names := []string{parameter}
	if bare, ok := strings.CutPrefix(parameter, prefix); ok {
		names = append(names, bare)
	}
	old := strings.NewReplacer("LayerNorm.weight", "LayerNorm.gamma", "LayerNorm.bias", "LayerNorm.beta")
	for _, n := range names {
		if o := old.Replace(n); o != n {
			names = append(names, o)
		}
	}
	if parameter == masked+".bias" {
		names = append(names, decoderBias)
	}
	return names[1:]
}

// isHead reports whether a tensor belongs to a task's head.
func isHead(name string) bool {
	for _, p := range []string{classifier + ".", "cls.", pooler + ".", strings.TrimPrefix(pooler, prefix) + "."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// ignoreUnexpected: heads of other tasks, a tied decoder, and position IDs.
func ignoreUnexpected(name string) bool {
	return isHead(name) || strings.HasSuffix(name, "embeddings.position_ids")
}
