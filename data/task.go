package data

import (
	"fmt"
	"slices"

	"trireme/fault"
	"trireme/tokenizer"
)

// Task is the training objective.
type Task uint8

// The tasks.
const (
	CausalLM               Task = iota // predict the next token at each position
	MaskedLM                           // predict masked tokens
	SequenceClassification             // predict the class label of each row
)

// ModelInfo describes the model that the rows are for.
type ModelInfo struct {
	Task      Task
	Vocab     int            // token ids must be below it; 0: not checked
	Positions int            // maximum tokens of a row; 0: unlimited
	Labels    int            // class labels must be below it; 0: not checked
	LabelIDs  map[string]int // the model's label2id; nil: from the data
}

// checkTask returns an error if rows of a format do not suit the task or c.
func (m ModelInfo) checkTask(c Config, format string, r *record) error {
	switch {
	case m.Task == SequenceClassification && format != FormatClassification && format != FormatInputIDs:
		return fault.Try(fmt.Errorf("data: %s has keys %s (format %s), but sequence classification needs a label", r.where, r.keys(), format), "%s", fault.Set("data.columns.label", "KEY"))
	case m.Task != SequenceClassification && format == FormatClassification:
		return fault.Try(fmt.Errorf("data: %s: format classification is for sequence classification, but the model predicts tokens", r.where), "a model for sequence classification, or data.format: auto to train on the texts")
	case format != FormatAlpaca && format != FormatPromptCompletion && format != FormatChat && format != FormatShareGPT && c.ChatTemplate != "":
		return fault.Try(fmt.Errorf("data: %s: chat_template %s does not apply to format %s", r.where, c.ChatTemplate, format), "without chat_template")
	case m.Task == MaskedLM && hasAnswers(format):
		return fault.Try(fmt.Errorf("data: %s: format %s has answers, but the model predicts masked tokens", r.where, format), "rows with a text")
	}
	return nil
}

// encoderOf returns the encoder of text rows of a format.
func (c Config) encoderOf(format string, first *record, tok *tokenizer.Tokenizer) (encoder, error) {
	cols := c.columns().withAliases(first, format)
	if format == FormatText {
		return newTextEncoder(cols.key("text"), tok), nil
	}
	a := newSpanEncoder(tok, c.TrainOn == trainAll)
	_, lists := cols.value(first, "prompt").([]any)
	chat := format == FormatChat || format == FormatShareGPT || format == FormatPromptCompletion && lists || c.ChatTemplate != ""
	switch {
	case format == FormatSegments:
		return &segmentEncoder{a, cols}, nil
	case format == FormatAlpaca && !chat:
		return &alpacaEncoder{a, cols}, nil
	case !chat:
		return &promptEncoder{a, cols}, nil
	}
	t, err := c.template(tok)
	if err != nil {
		return nil, err
	}
	roles := c.RolesToTrain
	if len(roles) == 0 {
		roles = []string{"assistant"}
	}
	return &chatEncoder{spanEncoder: a, columns: cols, format: format, template: t, roles: roles}, nil
}

// hasAnswers reports whether only parts of a format's rows are labels.
func hasAnswers(format string) bool {
	return slices.Contains([]string{FormatAlpaca, FormatPromptCompletion, FormatShareGPT, FormatChat, FormatSegments}, format)
}
