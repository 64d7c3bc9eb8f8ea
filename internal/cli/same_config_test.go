package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"trireme/internal/conf"
	"trireme/train"
)

// heard is a process group of two ranks, with the given message from rank 1.
type heard string

func (heard) Rank() int { return 0 }
func (heard) Size() int { return 2 }
func (h heard) AllGatherBytes(_ context.Context, mine []byte) ([][]byte, error) {
	return [][]byte{mine, []byte(h)}, nil
}

// TestSameEverywhere checks that ranks with another configuration are refused, except for keys of the
// machine, and that another program's configuration means another version.
func TestSameEverywhere(t *testing.T) {
	const commit = "0123456789012345678901234567890123456789"
	for name, c := range map[string]struct {
		theirs func(*train.Config)
		local  int
		text   string // added to theirs
		err    string
	}{
		"the same":                    {local: 2},
		"a machine of another size":   {local: 4, err: "rank 1 has another configuration than rank 0: LOCAL_WORLD_SIZE is 4, and 2 on rank 0"},
		"another rate":                {theirs: func(c *train.Config) { c.Training.LearningRate = 0.5 }, local: 2, err: "training.learning_rate is 0.5, and 0.0003 on rank 0"},
		"a key in a map":              {theirs: func(c *train.Config) { c.Data.Columns = map[string]string{"text": "body"} }, local: 2, err: "data.columns.text is body, and not set on rank 0"},
		"another directory":           {theirs: func(c *train.Config) { c.Data.Path = "/elsewhere/rows.jsonl" }, local: 2},
		"another commit on the hub":   {theirs: func(c *train.Config) { c.Data.Path = "o/n@1" + commit[1:] }, local: 2, err: "data.path is"},
		"a key that is not known":     {local: 2, text: "shiny: 1\n", err: "rank 1 runs another version than rank 0"},
		"a key that is not there yet": {local: 2, text: "-", err: "rank 1 runs another version than rank 0"},
	} {
		print := func(cfg train.Config) string {
			var b strings.Builder
			if err := conf.Print(&b, cfg, nil); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
		cfg := train.Default()
		cfg.Parallel.Strategy, cfg.Data.Path, cfg.Model.Path = "hybrid_shard", "o/n@"+commit, "model"
		j := &job{cfg: cfg, resolved: print(cfg)}
		if c.theirs != nil {
			c.theirs(&cfg)
		}
		theirs := rankConfig{Config: print(cfg) + c.text, Local: c.local}
		if c.text == "-" {
			theirs.Config = strings.Replace(print(cfg), "  shuffle: true\n", "", 1)
		}
		text, err := json.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		err = j.checkSameConfig(context.Background(), heard(text), 2)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
}
