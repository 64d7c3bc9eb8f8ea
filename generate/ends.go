package generate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"trireme/fault"
	"trireme/model"
)

// EndTokens returns eos_token_id, one or several, of generation_config.json in a model's directory; nil
// if there is no such file.
func EndTokens(dir string) ([]int32, error) {
	path := filepath.Join(dir, "generation_config.json")
	b, err := model.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	var c struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fault.Try(fmt.Errorf("generate: %s is not a JSON object (%w)", path, err), "download it again, or remove it")
	}
	if len(c.EOS) == 0 || string(c.EOS) == "null" {
		return nil, nil
	}
	var one int32
	if json.Unmarshal(c.EOS, &one) == nil {
		return []int32{one}, nil
	}
	var many []int32
	if err := json.Unmarshal(c.EOS, &many); err != nil {
		return nil, fault.Try(fmt.Errorf("generate: %s: eos_token_id is not an id or a list of ids", path), `"eos_token_id": N with the tokenizer's end token id`)
	}
	return many, nil
}
