package data

import (
	"fmt"
	"strings"

	"trireme/internal/ordered"
)

// alpacaEncoder encodes an instruction, optional input and output with the Stanford Alpaca prompts.
// A system text replaces their first paragraph. history comes first, each pair as a prompt and its
// answer.
type alpacaEncoder struct {
	spanEncoder
	columns columns
}

// promptEncoder encodes a prompt followed by its completion, unchanged.
type promptEncoder struct {
	spanEncoder
	columns columns
}

// segmentEncoder encodes a list of texts, each marked as label or not.
type segmentEncoder struct {
	spanEncoder
	columns columns
}

var (
	_ encoder = (*alpacaEncoder)(nil)
	_ encoder = (*promptEncoder)(nil)
	_ encoder = (*segmentEncoder)(nil)
)

// The prompts of Alpaca (github.com/tatsu-lab/stanford_alpaca).
const (
	alpacaPlain = "Below is an instruction that isMetadata a task. Write a response that appropriately completes the request."
	alpacaInput = "Below is an instruction that isMetadata a task, paired with an input that provides further context. Write a response that appropriately completes the request."
)

func alpacaTurn(instruction, input string) string {
	if input != "" {
		return "### Instruction:\n" + instruction + "\n\n### Input:\n" + input + "\n\n### Response:"
	}
	return "### Instruction:\n" + instruction + "\n\n### Response:"
}

func (e *alpacaEncoder) fingerprint() string {
	return fmt.Sprintf("alpaca 1 %v %v", e.columns, e.spanEncoder.fingerprint())
}

func (e *alpacaEncoder) encode(r *record, ex *example) (bool, error) {
	a, err := readAlpaca(e.columns, r)
	if err != nil || strings.TrimSpace(a.output) == "" {
		return false, err
	}
	if a.system == "" {
		if a.system = alpacaPlain; a.input != "" {
			a.system = alpacaInput
		}
	}
	pieces := []piece{{a.system + "\n\n", false}}
	for _, turn := range a.history {
		pieces = append(pieces, piece{alpacaTurn(turn[0], ""), false}, piece{turn[1] + e.eos, true}, piece{"\n\n", false})
	}
	pieces = append(pieces, piece{alpacaTurn(a.instruction, a.input), false}, piece{a.output, true})
	return e.document(ex, pieces), nil
}

// alpaca is a row of that format; system, history and input are optional.
type alpaca struct {
	system, instruction, input, output string
	history                            [][2]string
}

func readAlpaca(c columns, r *record) (a alpaca, err error) {
	for _, part := range []struct {
		to   *string
		name string
		read func(*record, string) (string, error)
	}{
		{&a.instruction, "instruction", c.text},
		{&a.output, "output", c.text},
		{&a.input, "input", c.optional},
		{&a.system, "system", c.optional},
	} {
		if *part.to, err = part.read(r, part.name); err != nil {
			return a, err
		}
	}
	a.history, err = historyTurns(c.key("history"), c.value(r, "history"))
	return a, err
}

// historyTurns returns pairs of earlier prompts and answers.
func historyTurns(key string, v any) ([][2]string, error) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is %s, expected a list of [prompt, answer] pairs", key, typeName(v))
	}
	out := make([][2]string, len(list))
	for i, one := range list {
		pair, ok := one.([]any)
		if !ok || len(pair) != 2 {
			return nil, fmt.Errorf("pair %d of %s is %s, expected [prompt, answer]", i+1, key, typeName(one))
		}
		for k, v := range pair {
			if out[i][k], ok = v.(string); !ok {
				return nil, fmt.Errorf("pair %d of %s contains %s, expected two strings", i+1, key, typeName(v))
			}
		}
	}
	return out, nil
}

func (e *promptEncoder) fingerprint() string {
	return fmt.Sprintf("prompt 1 %v %v", e.columns, e.spanEncoder.fingerprint())
}

func (e *promptEncoder) encode(r *record, ex *example) (bool, error) {
	prompt, err := e.columns.text(r, "prompt")
	if err != nil {
		return false, err
	}
	completion, err := e.columns.text(r, "completion")
	if err != nil || strings.TrimSpace(completion) == "" {
		return false, err
	}
	return e.document(ex, []piece{{prompt, false}, {completion, true}}), nil
}

func (e *segmentEncoder) fingerprint() string {
	return fmt.Sprintf("segments 1 %v %v", e.columns, e.spanEncoder.fingerprint())
}

func (e *segmentEncoder) encode(r *record, ex *example) (bool, error) {
	key := e.columns.key("segments")
	list, ok := e.columns.value(r, "segments").([]any)
	if !ok {
		return false, fmt.Errorf("%s is %s, expected a list of objects with %s and %s", key, typeName(e.columns.value(r, "segments")), e.columns.key("text"), e.columns.key("label"))
	}
	if len(list) == 0 {
		return false, nil
	}
	pieces := make([]piece, len(list))
	for i, v := range list {
		m, _ := v.(ordered.Map)
		text, okText := m.Get(e.columns.key("text")).(string)
		label, okLabel := m.Get(e.columns.key("label")).(bool)
		if !okText || !okLabel {
			return false, fmt.Errorf("segment %d of %s is not an object with a string %q and a boolean %q", i+1, key, e.columns.key("text"), e.columns.key("label"))
		}
		pieces[i] = piece{text, label}
	}
	return e.document(ex, pieces), nil
}
