package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/internal/conf"
)

// TestTiersApart: the last tier is neither the directory of the run's checkpoints, nor in it, nor around it.
func TestTiersApart(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Mkdir(out, 0o755), os.Symlink(out, link)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ first, last, want string }{
		{"", filepath.Join(out, "checkpoints"), "needs another directory"},
		{"", filepath.Join(out, "checkpoints") + "/", "needs another directory"},
		{"", filepath.Join(link, "checkpoints"), "needs another directory"},
		{"", filepath.Join(out, "checkpoints", "last"), "neither may be inside the other"},
		{"", out, "neither may be inside the other"},
		{"", filepath.Join(out, "last"), ""},
		{"", filepath.Join(out, "checkpoints-2"), ""},
		{"", "s3://bucket/run", ""},
		{"", "", "needs another directory"},
		{"a", "", "needs another directory"},
		{"a", "a", "needs another directory"},
		{"a", "./b/../a/", "needs another directory"},
		{"a", "a/b", "neither may be inside the other"},
		{"a/b", "a", "neither may be inside the other"},
		{"a", "ab", ""},
		{"s3://bucket/a", "s3://bucket/a/", "needs another directory"},
		{"s3://bucket/a", "s3://bucket/a/b", "neither may be inside the other"},
		{"s3://bucket/a/b", "s3://bucket/a", "neither may be inside the other"},
		{"s3://bucket/a", "s3://bucket", "neither may be inside the other"},
		{"s3://bucket/a", "s3://bucket/ab", ""},
		{"s3://bucket/a", "s3://bucket-2/a", ""},
		{"s3://bucket/a", "bucket/a", ""},
	} {
		for _, memory := range [][]Tier{nil, {{Dir: Memory, SaveEveryNSteps: 1}}} {
			cfg := Config{Tiers: append(memory, Tier{Dir: c.first}, Tier{Dir: c.last})}
			err := cfg.Validate()
			if err == nil {
				err = cfg.Check(out, 1)
			}
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%q and %q: %v", c.first, c.last, err)
			}
		}
	}
}

// TestTierKeys: each tier on storage has its own rules of what is kept, which are not set beside tiers.
func TestTierKeys(t *testing.T) {
	type root struct {
		Checkpoint Config `yaml:"checkpoint"`
	}
	load := func(text string) (Config, error) {
		l, err := conf.Load(root{}, conf.Text("run.yaml", "checkpoint: {"+text+"}"))
		if err != nil {
			return Config{}, err
		}
		return l.Value.Checkpoint, nil
	}
	c, err := load("tiers: [{dir: memory, save_every_n_steps: 1}, {keep_hours: 2}, {dir: s3://b/k, keep_last_n: 1, keep_every_n_steps: 100, keep_size: 1GB}]")
	if err != nil {
		t.Fatal(err)
	}
	last, _ := c.Remote()
	if want := (Keep{KeepHours: 2}); c.Disk().Keep != want {
		t.Errorf("the directory keeps %+v, want %+v", c.Disk().Keep, want)
	}
	if want := (Keep{KeepLastN: 1, KeepEveryNSteps: 100, KeepSize: 1e9}); last.Keep != want {
		t.Errorf("the last tier keeps %+v, want %+v", last.Keep, want)
	}
	for text, want := range map[string]string{
		"keep_every_n_steps: 5, tiers: [{dir: a}]":                                       "checkpoint.keep_every_n_steps is set beside tiers",
		"keep_size: 1GB, tiers: [{dir: a}]":                                              "checkpoint.keep_size is set beside tiers",
		"tiers: [{dir: a, keep_hours: -1}]":                                              "checkpoint.tiers[0].keep_hours is -1: it must not be negative",
		"tiers: [{dir: memory, save_every_n_steps: 1, keep_every_n_steps: 5}, {dir: a}]": "checkpoint.tiers[0].keep_every_n_steps is set: memory keeps the two newest",
		"keep_last_n: -1": "checkpoint.keep_last_n is -1",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
