package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

var (
	encoder = Family{Name: "encoder", Architectures: []string{"EncForSequenceClassification", "EncForMaskedLM"}, Bases: []string{"EncModel", "EncForPreTraining"}, ModelTypes: []string{"enc"}}
	decoder = Family{Name: "decoder", Architectures: []string{"DecForCausalLM", "Dec2LMHeadModel"}, Bases: []string{"Dec2Model"}, ModelTypes: []string{"dec", "dec_2"}}
)

// TestForTask: the architecture by config.json and task.
func TestForTask(t *testing.T) {
	for what, want := range map[string]string{
		`"architectures": ["EncForMaskedLM"], for `:                        "EncForMaskedLM",
		`"architectures": ["EncForMaskedLM"], for masked_lm`:               "EncForMaskedLM",
		`"architectures": ["EncForMaskedLM"], for sequence_classification`: "EncForSequenceClassification",
		`"architectures": ["EncForMaskedLM"], for causal_lm`:               "no architecture for task causal_lm. supported: EncForSequenceClassification, EncForMaskedLM",
		`"architectures": ["EncForPreTraining"], for masked_lm`:            "EncForMaskedLM",
		`"architectures": ["EncModel"], for `:                              "EncModel can be trained for masked_lm and sequence_classification. try: model.task=masked_lm",
		`"architectures": ["Dec2Model"], for `:                             "Dec2LMHeadModel",
		`"architectures": ["Dec2Model"], for causal_lm`:                    "Dec2LMHeadModel",
		`"architectures": ["DecForCausalLM"], for causal_lm`:               "DecForCausalLM",
		`"model_type": "dec_2", for causal_lm`:                             "Dec2LMHeadModel",
		`"model_type": "dec", for causal_lm`:                               "DecForCausalLM",
		`"model_type": "enc", for `:                                        "",
		`"architectures": ["EncForTokenClassification"], for `:             "architecture EncForTokenClassification is not supported. supported: EncForSequenceClassification, EncForMaskedLM, DecForCausalLM, Dec2LMHeadModel",
		`"architectures": ["DecForCausalLM"], for translation`:             `task "translation" is not one of causal_lm, masked_lm, sequence_classification`,
	} {
		keys, task, _ := strings.Cut(what, ", for ")
		config, err := Registry{encoder, decoder}.ParseConfig("config.json", fmt.Appendf(nil, `{%s, "hidden_size": 7}`, keys))
		if err == nil {
			config, err = config.ForTask(task)
		}
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", what, err, want)
			}
			continue
		}
		var got struct {
			Architectures []string `json:"architectures"`
			HiddenSize    int      `json:"hidden_size"`
		}
		if err := json.Unmarshal(config.JSON, &got); err != nil {
			t.Fatal(err)
		}
		if s := strings.Join(got.Architectures, " "); s != want || got.HiddenSize != 7 {
			t.Errorf("%s: %s, want %s", what, s, want)
		}
	}
}
