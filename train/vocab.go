package train

import (
	"errors"
	"fmt"
	"strconv"

	"trireme/fault"
	"trireme/model"
)

// VocabSize is a number of tokens; 0 leaves it as it is.
type VocabSize int

// AutoVocab is the tokenizer's number of tokens.
const AutoVocab VocabSize = -1

const autoName = "auto"

// UnmarshalText reads a number, or auto.
func (v *VocabSize) UnmarshalText(text []byte) error {
	if string(text) == autoName {
		*v = AutoVocab
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is neither a number of tokens nor %s", text, autoName)
	}
	*v = VocabSize(n)
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (v VocabSize) MarshalText() ([]byte, error) {
	if v == AutoVocab {
		return []byte(autoName), nil
	}
	return strconv.AppendInt(nil, int64(v), 10), nil
}

// ReadModel finds the model's config.json, as Model.Read does, and changes in it the numbers of
// labels and tokens that the configuration asks for.
func (cfg Config) ReadModel(families model.Registry) (*model.Config, error) {
	config, err := cfg.Model.Read(families)
	if err != nil {
		return nil, err
	}
	changes := map[string]any{}
	if n := cfg.Model.NumLabels; n > 0 {
		names, ids := map[string]string{}, map[string]int{}
		for i := range n {
			name := fmt.Sprintf("LABEL_%d", i)
			names[strconv.Itoa(i)], ids[name] = name, i
		}
		changes["id2label"], changes["label2id"], changes["num_labels"] = names, ids, nil
	}
	was := vocabOf(config)
	vocab, err := cfg.vocab(was)
	if err != nil {
		return nil, err
	}
	if vocab != was {
		changes["vocab_size"] = vocab
	}
	if len(changes) == 0 {
		return config, nil
	}
	changed, err := config.With(changes)
	if err == nil && vocab != was {
		changed.FilesVocab = was
	}
	return changed, err
}

// vocabOf is config.json's vocab_size, which all families call so; 0 where it has none that can
// be read, which is found when the model is made.
func vocabOf(config *model.Config) int {
	var c struct {
		VocabSize int `json:"vocab_size"`
	}
	if model.Decode(config.JSON, &c) != nil {
		return 0
	}
	return c.VocabSize
}

// vocab is the size of the vocabulary that the configuration asks for.
func (cfg Config) vocab(was int) (int, error) {
	n := was
	switch v := cfg.Model.VocabSize; v {
	case 0:
	case AutoVocab:
		tok, err := cfg.openTokenizer()
		if err != nil {
			return 0, err
		}
		if tok == nil {
			return 0, fault.Try(errors.New("train: model.vocab_size is auto, and there is no tokenizer"), "%s", fault.Set("data.tokenizer", "DIR"))
		}
		n = tok.VocabSize()
	default:
		n = int(v)
	}
	if m := cfg.Model.PadVocabToMultipleOf; m > 0 {
		n = (n + m - 1) / m * m
	}
	return n, nil
}
