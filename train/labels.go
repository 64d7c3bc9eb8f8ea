package train

import (
	"encoding/json"
	"fmt"
	"strconv"

	"trireme/model"
)

// labelIDs returns label2id of a config.json; nil if it has none.
func labelIDs(config *model.Config) map[string]int {
	var c struct {
		LabelIDs map[string]int `json:"label2id"`
	}
	if json.Unmarshal(config.JSON, &c) != nil {
		return nil
	}
	return c.LabelIDs
}

// nameLabels writes label names to a config.json of count labels. Without names it changes nothing.
func nameLabels(config map[string]json.RawMessage, names []string, count int) error {
	if len(names) == 0 {
		return nil
	}
	byID, ids := map[string]string{}, map[string]int{}
	for i := range max(count, len(names)) {
		name := fmt.Sprintf("LABEL_%d", i)
		if i < len(names) {
			name = names[i]
		}
		byID[strconv.Itoa(i)], ids[name] = name, i
	}
	for key, v := range map[string]any{"id2label": byID, "label2id": ids} {
		blob, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("train: %s: %w", key, err)
		}
		config[key] = blob
	}
	return nil
}
