package data

import (
	"fmt"
	"slices"

	"trireme/fault"
	"trireme/tokenizer"
)

// Task is what a model is to learn of rows.
type Task uint8

// The tasks.
const (
	CausalLM               Task = iota // at each position the token that follows
	MaskedLM                           // at some positions the token that is hidden there
	SequenceClassification             // of each row its label
)

// ModelInfo is what a model wants of its rows.
type ModelInfo struct {
	Task      Task
	Vocab     int            // token ids are below it; 0 does not check
	Positions int            // tokens of a row at most; 0 is any number
	Labels    int            // labels of rows are below it; 0 does not check
	LabelIDs  map[string]int // what the model calls its labels; nil: the data says
}

// fits is an error unless rows of a format are for the task, and for what c says of them.
func (p ModelInfo) checkTask(c Config, format string, r *record) error {
	switch {
	case p.Task == SequenceClassification && format != FormatClassification && format != FormatInputIDs:
		return fault.Try(fmt.Errorf("data: %s has keys %s, which are of the format %s: the model tells labels apart, and that has none", r.where, r.keys(), format), "%s", fault.Set("data.columns.label", "KEY"))
	case p.Task != SequenceClassification && format == FormatClassification:
		return fault.Try(fmt.Errorf("data: %s: rows of the format classification have a label each, and the model predicts tokens", r.where), "a model for sequence classification, or data.format: auto to learn the texts")
	case format != FormatAlpaca && format != FormatPromptCompletion && format != FormatChat && format != FormatShareGPT && c.ChatTemplate != "":
		return fault.Try(fmt.Errorf("data: %s: chat_template is %s, and rows of the format %s are no conversations", r.where, c.ChatTemplate, format), "without chat_template")
	case p.Task == MaskedLM && hasAnswers(format):
		return fault.Try(fmt.Errorf("data: %s: rows of the format %s have answers, and the model fills in masked tokens", r.where, format), "rows with a text")
	}
	return nil
}

// encoderOf makes the encoder of rows that are text, of the format given.
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

// learnsAnswers says whether rows of a format are learned in parts.
func hasAnswers(format string) bool {
	return slices.Contains([]string{FormatAlpaca, FormatPromptCompletion, FormatShareGPT, FormatChat, FormatSegments}, format)
}
