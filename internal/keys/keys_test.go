package keys

import (
	"slices"
	"strings"
	"testing"

	"trireme/fault"
)

// TestAliases checks that aliases map to keys and that no alias is the name of a key.
func TestAliases(t *testing.T) {
	listed := map[string]bool{}
	for _, k := range aliases {
		for name := range strings.FieldsSeq(k.names) {
			if own := ByName(name); own != "" && name != "dtype" { // ambiguous in other programs
				t.Errorf("%s of %s is the name of %s", name, k.program, own)
			}
			if listed[fold(name)] {
				t.Errorf("%s is listed twice", name)
			}
			listed[fold(name)] = true
		}
		if _, ok := Find(k.key); k.key != "" && k.key != fault.Ranks && !ok {
			t.Errorf("%s maps to %q, which is no key", k.names, k.key)
		}
		if k.key == "" && k.note == "" {
			t.Errorf("%s: neither a key nor a reason", k.names)
		}
	}
	for _, c := range []struct{ name, key string }{
		{"training.lr", "training.learning_rate"}, {"perDeviceTrainBatchSize", "training.micro_batch_size"},
		{"data.block-size", "data.sequence_length"}, {"optim", "training.optimizer"}, {"dataset", "data"}, {"training.zebra", ""},
	} {
		if got, _ := Suggest(c.name); got != c.key {
			t.Errorf("%s means %q, not %q", c.name, got, c.key)
		}
	}
	if _, why := Suggest("lora_r"); !strings.Contains(why, "not supported") {
		t.Errorf("lora_r: %q", why)
	}
}

func TestUnder(t *testing.T) {
	if got := Under("parallel.mesh"); len(got) != 3 || got[0].Type != Group {
		t.Errorf("parallel.mesh has %v", got)
	}
	if Under("parallel.mes") != nil {
		t.Error("a prefix of a name is taken for a group")
	}
	if k, _ := Find("training.lr_scheduler"); !slices.Contains(k.Values, "cosine") || k.Default != "cosine" {
		t.Errorf("training.lr_scheduler is %+v", k)
	}
}
