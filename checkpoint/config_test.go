package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
