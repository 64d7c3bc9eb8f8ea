package conf_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"trireme/internal/conf"
)

func TestPrintWithOrigins(t *testing.T) {
	loaded, err := conf.Load(defaults(),
		conf.Text("run.yaml", "training:\n  max_steps: 20\n  betas: [0.9, 0.95]\nparallel:\n  strategy: full_shard\nmeshes: [{shard: 2}]\n"),
		conf.Set("--set", "columns.label=y z"),
		conf.Env(map[string]string{"TRIREME_TRAINING_SEED": "7"}),
		conf.Flag("--output_dir", "output_dir", "a #b"))
	if err != nil {
		t.Fatal(err)
	}
	want := `output_dir: "a #b"  # --output_dir
training:
  max_steps: 20  # run.yaml:2:14
  learning_rate: 0.001  # default
  betas: [0.9, 0.95]  # run.yaml:3:10
  seed: 7  # environment TRIREME_TRAINING_SEED
  shuffle: false  # default
  max_grad_norm: null  # default
parallel:
  strategy: full_shard  # run.yaml:5:13
  mesh:
    replicate: 1  # default
    shard: 2  # default
layers: []  # default
names: []  # default
columns:
  label: "y z"  # --set columns.label=y z
  text: body  # default
meshes: [{replicate: 0, shard: 2}]  # run.yaml:6:9
extra: null  # default
`
	var got strings.Builder
	if err := conf.Print(&got, loaded.Value, loaded.Origins); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
	roundTrip(t, loaded.Value, got.String())
}

// roundTrip loads a printed tree.
func roundTrip(t *testing.T, want root, printed string) {
	t.Helper()
	again, err := conf.Load(root{}, conf.Text("config.yaml", printed))
	if err != nil && !strings.Contains(err.Error(), "not positive") && !strings.Contains(err.Error(), "diverge") && !strings.Contains(err.Error(), "yours") {
		t.Fatalf("%v\n%s", err, printed)
	}
	if diff := cmp.Diff(want, again.Value, cmp.AllowUnexported(root{}, training{}), nanEqual); diff != "" {
		t.Fatalf("%s\n%s", diff, printed)
	}
}

var nanEqual = cmp.Comparer(func(a, b float64) bool { return a == b || a != a && b != b })

// FuzzLoad checks that no text makes the decoder panic or hang, and that an accepted text prints to a
// text that loads to the same tree.
func FuzzLoad(f *testing.F) {
	f.Add("training: {max_steps: 1e3, betas: [.9, .95]}\ncolumns: {a: b}\n", "training.seed=1")
	f.Add("layers: &a [1]\nextra: {x: *a, y: [1.5, ~, \"\"]}\nnames: [null, 'true', \"\\t\"]\n", "parallel.mesh={shard: 2}")
	f.Add("a: [1,\n? [", "=")
	f.Add("names:\n- |\n  a\n   b\n- >-\n  c\n", "names=[a,\"b\"]")
	f.Fuzz(func(t *testing.T, yaml, set string) {
		loaded, err := conf.Load(defaults(), conf.Text("run.yaml", yaml), conf.Set("--set", set))
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if line == "" {
					t.Errorf("an empty line in %q", err)
				}
			}
			return
		}
		var printed strings.Builder
		if err := conf.Print(&printed, loaded.Value, loaded.Origins); err != nil {
			t.Fatal(err)
		}
		roundTrip(t, loaded.Value, printed.String())
	})
}

// TestPrintLongOrigin checks that a long origin keeps its line and column.
func TestPrintLongOrigin(t *testing.T) {
	name := strings.Repeat("directory/", 10) + "run.yaml"
	loaded, err := conf.Load(defaults(), conf.Text(name, "training:\n  max_steps: 20\n"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := conf.Print(&b, loaded.Value, loaded.Origins); err != nil {
		t.Fatal(err)
	}
	if want := "directory/run.yaml:2:14\n"; !strings.Contains(b.String(), "  max_steps: 20  # ...") || !strings.Contains(b.String(), want) {
		t.Errorf("%s\nis without %s", b.String(), want)
	}
}
