package bert

import "strings"

const (
	prefix     = "bert."       // of the encoder, in a file with a head
	pooler     = "bert.pooler" // between the encoder and a head that classifies
	classifier = "classifier"
	masked     = "cls.predictions"
	// decoderBias is a second name of masked's bias. transformers 4 holds one tensor under both names.
	// In transformers 5 they are one where the decoder is tied; else logits take this one, the other
	// is unused, and files have both.
	decoderBias = masked + ".decoder.bias"
)

// aliases: the files of the encoder alone leave the prefix out, and the oldest call the gain and
// the shift of a norm as TensorFlow does.
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

// isHead says whether a tensor belongs to what a task puts on the encoder.
func isHead(name string) bool {
	for _, p := range []string{classifier + ".", "cls.", pooler + ".", strings.TrimPrefix(pooler, prefix) + "."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// spare: heads of other tasks, a decoder that is tied, and the numbers of the positions.
func spare(name string) bool {
	return isHead(name) || strings.HasSuffix(name, "embeddings.position_ids")
}
