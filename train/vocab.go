package train

import (
	"errors"
	"fmt"
	"strconv"

	"trireme/fault"
	"trireme/model"
)

// VocabSize is a vocabulary size; 0 keeps the model's.
type VocabSize int

// AutoVocab is the tokenizer's vocabulary size.
const AutoVocab VocabSize = -1

const autoName = "auto"

// UnmarshalText parses a number or auto.
func (v *VocabSize) UnmarshalText(text []byte) error {
	if string(text) == autoName {
		*v = AutoVocab
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number of tokens or %s", text, autoName)
	}
	*v = VocabSize(n)
	return nil
}

// MarshalText returns the number or auto.
func (v VocabSize) MarshalText() ([]byte, error) {
	if v == AutoVocab {
		return []byte(autoName), nil
	}
	return strconv.AppendInt(nil, int64(v), 10), nil
}

// ReadModel is Model.Read with the configured number of labels and vocabulary size.
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

// vocabOf returns vocab_size of config.json, the name in all families; 0 if it cannot be read, which
// making the model reports.
func vocabOf(config *model.Config) int {
	var c struct {
		VocabSize int `json:"vocab_size"`
	}
	if model.Decode(config.JSON, &c) != nil {
		return 0
	}
	return c.VocabSize
}

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
			return 0, fault.Try(errors.New("train: model.vocab_size is auto, but there is no tokenizer"), "%s", fault.Set("data.tokenizer", "DIR"))
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
