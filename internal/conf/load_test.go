package conf_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"trireme/fault"
	"trireme/internal/conf"
)

// strategy is an enumeration, as packages define them.
type strategy int

var strategyNames = []string{"no_shard", "zero_1", "full_shard"}

func (s strategy) Choices() []string { return strategyNames }

func (s strategy) MarshalText() ([]byte, error) { return []byte(strategyNames[s]), nil }

func (s *strategy) UnmarshalText(text []byte) error {
	for i, name := range strategyNames {
		if name == string(text) {
			*s = strategy(i)
			return nil
		}
	}
	return fmt.Errorf("no such strategy")
}

type training struct {
	MaxSteps     int        `yaml:"max_steps"`
	LearningRate float64    `yaml:"learning_rate"`
	Betas        [2]float64 `yaml:"betas"`
	Seed         uint8      `yaml:"seed"`
	Shuffle      bool       `yaml:"shuffle"`
	Clip         *float32   `yaml:"max_grad_norm"`
}

func (t training) Validate() error {
	var errs []error
	if t.MaxSteps < 1 {
		errs = append(errs, fault.At("max_steps", "%d is not positive", t.MaxSteps))
	}
	if t.MaxSteps > 1000 && t.LearningRate > 1 {
		errs = append(errs, errors.New("these steps diverge at this rate"),
			errors.New("max_steps and learning_rate are too large"),
			fault.At("learning_rate", "is huge"), errors.New("takes too long"))
	}
	return errors.Join(errs...)
}

// transport is an enumeration without text methods.
type transport string

func (transport) Choices() []string { return []string{"auto", "shm", "tcp"} }

type mesh struct {
	Replicate int `yaml:"replicate"`
	Shard     int `yaml:"shard"`
}

type parallel struct {
	Strategy strategy `yaml:"strategy"`
	Mesh     *mesh    `yaml:"mesh"`
}

type common struct {
	OutputDir string `yaml:"output_dir"`
}

type root struct {
	common
	Training training          `yaml:"training"`
	Parallel parallel          `yaml:"parallel"`
	Layers   []int             `yaml:"layers"`
	Names    []string          `yaml:"names"`
	Columns  map[string]string `yaml:"columns"`
	Meshes   []mesh            `yaml:"meshes"`
	Extra    any               `yaml:"extra"`
}

func (r *root) Validate() error {
	if r.OutputDir == "/" {
		return errors.Join(fault.At("output_dir", "/ is not yours"), errors.New("second thoughts"))
	}
	return nil
}

func defaults() root {
	r := root{Training: training{MaxSteps: 10, LearningRate: 1e-3, Betas: [2]float64{0.9, 0.999}}}
	r.OutputDir = "out"
	r.Columns = map[string]string{"text": "body"}
	r.Parallel.Mesh = &mesh{1, 2}
	return r
}

func TestEnumerationOfStrings(t *testing.T) {
	type config struct {
		Backend transport `yaml:"backend"`
	}
	got, err := conf.Load(config{"auto"}, conf.Text("x", "backend: tcp"))
	if err != nil || got.Value.Backend != "tcp" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = conf.Load(config{"auto"}, conf.Text("x", "backend: smh"))
	if err == nil || err.Error() != `x:1:10: backend: "smh" is not one of auto, shm, tcp. did you mean "shm"?` {
		t.Error(err)
	}
}

func TestValues(t *testing.T) {
	clip := float32(0.5)
	for _, c := range []struct {
		name, yaml string
		sources    []conf.Source
		want       func(*root)
	}{
		{name: "empty", yaml: "", want: func(*root) {}},
		{name: "comments only", yaml: "# training:\n", want: func(*root) {}},
		{name: "heading without keys", yaml: "training:\n# max_steps: 1\ncolumns:\n", want: func(*root) {}},
		{name: "exponent as integer", yaml: "training: {max_steps: 1e9}", want: func(r *root) { r.Training.MaxSteps = 1e9 }},
		{name: "fraction that is whole", yaml: "training: {max_steps: 2.5e3}", want: func(r *root) { r.Training.MaxSteps = 2500 }},
		{name: "underscores", yaml: "training: {max_steps: 1_000}", want: func(r *root) { r.Training.MaxSteps = 1000 }},
		{name: "hexadecimal", yaml: "training: {max_steps: 0x10}", want: func(r *root) { r.Training.MaxSteps = 16 }},
		{name: "leading zero is decimal", yaml: "training: {max_steps: 010}", want: func(r *root) { r.Training.MaxSteps = 10 }},
		{name: "float with exponent", yaml: "training: {learning_rate: 3.0e-4}", want: func(r *root) { r.Training.LearningRate = 3e-4 }},
		{name: "float without point", yaml: "training: {learning_rate: 1e-8}", want: func(r *root) { r.Training.LearningRate = 1e-8 }},
		{name: "whole float", yaml: "training: {learning_rate: 1}", want: func(r *root) { r.Training.LearningRate = 1 }},
		{name: "array", yaml: "training:\n  betas: [0.9, 0.95]", want: func(r *root) { r.Training.Betas = [2]float64{0.9, 0.95} }},
		{name: "block list", yaml: "layers:\n  - 1\n  - 2", want: func(r *root) { r.Layers = []int{1, 2} }},
		{name: "bool", yaml: "training: {shuffle: true}", want: func(r *root) { r.Training.Shuffle = true }},
		{name: "pointer", yaml: "training: {max_grad_norm: 0.5}", want: func(r *root) { r.Training.Clip = &clip }},
		{name: "enumeration", yaml: "parallel: {strategy: zero_1}", want: func(r *root) { r.Parallel.Strategy = 1 }},
		{name: "pointer to node merges", yaml: "parallel: {mesh: {shard: 4}}", want: func(r *root) { r.Parallel.Mesh = &mesh{1, 4} }},
		{name: "null pointer", yaml: "parallel: {mesh: null}", want: func(r *root) { r.Parallel.Mesh = nil }},
		{name: "inlined", yaml: "output_dir: 2026", want: func(r *root) { r.OutputDir = "2026" }},
		{name: "null text", yaml: "output_dir: ~", want: func(r *root) { r.OutputDir = "" }},
		{name: "map merges", yaml: "columns: {label: y}", want: func(r *root) { r.Columns["label"] = "y" }},
		{name: "list of nodes", yaml: "meshes: [{shard: 2}, {replicate: 3}]", want: func(r *root) { r.Meshes = []mesh{{0, 2}, {3, 0}} }},
		{name: "anchor", yaml: "layers: &l [1]\nextra: *l", want: func(r *root) { r.Layers, r.Extra = []int{1}, []any{int64(1)} }},
		{name: "any", yaml: `extra: {a: 1, b: 1.0, c: "1", d: true, e: x, f: }`, want: func(r *root) {
			r.Extra = map[string]any{"a": int64(1), "b": 1.0, "c": "1", "d": true, "e": "x", "f": nil}
		}},
		{name: "set", sources: []conf.Source{conf.Set("--set", "training.max_steps=1e3")}, want: func(r *root) { r.Training.MaxSteps = 1000 }},
		{name: "set text with colon", sources: []conf.Source{conf.Set("--set", "output_dir=a: b # c")}, want: func(r *root) { r.OutputDir = "a: b # c" }},
		{name: "set list", sources: []conf.Source{conf.Set("--set", "training.betas=[0.8,0.9]")}, want: func(r *root) { r.Training.Betas = [2]float64{0.8, 0.9} }},
		{name: "set list plainly", sources: []conf.Source{conf.Set("--set", "layers=-1,2")}, want: func(r *root) { r.Layers = []int{-1, 2} }},
		{name: "set list to nothing", yaml: "layers: [1]", sources: []conf.Source{conf.Set("--set", "layers=")}, want: func(r *root) {}},
		{name: "set null", sources: []conf.Source{conf.Set("--set", "parallel.mesh=null")}, want: func(r *root) { r.Parallel.Mesh = nil }},
		{name: "set node", sources: []conf.Source{conf.Set("--set", "parallel.mesh={shard: 8}")}, want: func(r *root) { r.Parallel.Mesh.Shard = 8 }},
		{name: "set map key", sources: []conf.Source{conf.Set("--set", "columns.text=content")}, want: func(r *root) { r.Columns["text"] = "content" }},
		{name: "later over earlier", yaml: "training: {seed: 1, max_steps: 1}", sources: []conf.Source{
			conf.Set("--set", "training.seed=2"),
			conf.Env(map[string]string{"TRIREME_TRAINING_SEED": "3", "TRIREME_PARALLEL_MESH_SHARD": "5", "HOME": "x", "TRIREME_LAYERS": "", "TRIREME_TRAINING_MAX_STEPS": ""}),
			conf.Flag("--output_dir", "output_dir", "o")},
			want: func(r *root) {
				r.Training.Seed, r.Training.MaxSteps, r.OutputDir, r.Parallel.Mesh.Shard = 3, 1, "o", 5
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			given := defaults()
			got, err := conf.Load(given, append([]conf.Source{conf.Text("run.yaml", c.yaml)}, c.sources...)...)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			c.want(&want)
			opts := cmp.AllowUnexported(root{}, training{})
			if diff := cmp.Diff(want, got.Value, opts); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(defaults(), given, opts); diff != "" {
				t.Error("the defaults were changed:", diff)
			}
		})
	}
}

// TestMessages compares messages with testdata/messages.txt: blocks of "> source" lines and the expected
// text. Sources that start with --set or TRIREME_ are flags and variables, others run.yaml.
func TestMessages(t *testing.T) {
	const golden = "testdata/messages.txt"
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		var yaml string
		var more []conf.Source
		for line := range strings.SplitSeq(block, "\n") {
			src, ok := strings.CutPrefix(line, "> ")
			if !ok {
				continue
			}
			out.WriteString(line + "\n")
			if set, ok := strings.CutPrefix(src, "--set "); ok {
				more = append(more, conf.Set("--set", set))
			} else if strings.HasPrefix(src, conf.EnvPrefix) {
				name, value, _ := strings.Cut(src, "=")
				more = append(more, conf.Env(map[string]string{name: value}))
			} else {
				yaml += strings.ReplaceAll(src, `\t`, "\t") + "\n"
			}
		}
		_, err := conf.Load(defaults(), append([]conf.Source{conf.Text("run.yaml", yaml)}, more...)...)
		fmt.Fprintf(&out, "%v\n\n", err)
	}
	if got := strings.TrimSpace(out.String()) + "\n"; got != string(raw) {
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Errorf("messages differ (UPDATE=1 rewrites them):\n%s", cmp.Diff(string(raw), got))
	}
}

// TestHints checks that another program's name suggests the key from every source, and that its node has
// no consequential errors.
func TestHints(t *testing.T) {
	hints := conf.Hints(func(path string) (meant, why string) {
		switch path[strings.LastIndexByte(path, '.')+1:] {
		case "steps":
			return "training.max_steps", " (steps elsewhere)"
		case "lora":
			return "", "it is not supported"
		}
		return "", ""
	})
	_, err := conf.Load(root{}, conf.Text("x", "{steps: 3, training: {lora: 8, maxSteps: 2}}"), conf.Set("--set", "training.steps=3"), conf.Env(map[string]string{"TRIREME_STEPS": "3"}), hints)
	want := `x:1: unknown key "steps" at the top level. did you mean "training.max_steps" (steps elsewhere)?
x:1: unknown key "lora" under training. it is not supported
x:1: unknown key "maxSteps" under training. did you mean "max_steps"?
--set training.steps=3: unknown key "steps" under training. did you mean "max_steps" (steps elsewhere)?
environment TRIREME_STEPS: no such key. did you mean TRIREME_TRAINING_MAX_STEPS (steps elsewhere)?`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct{ file, want string }{
		{filepath.Join(dir, "none.yaml"), "no such file"},
		{dir, "is a directory, not a configuration file"},
		{write("binary", "a: \x00"), `1:4: contains a NUL byte ("a: \x00"). try: remove it`},
		{write("latin1", "a: \xe9"), `1:4: byte 0xe9 is not UTF-8 ("a: \xe9"). try: iconv -f LATIN1 -t UTF-8 ` + filepath.Join(dir, "latin1") + ", if the file is in Latin-1"},
		{write("long", strings.Repeat("#", 5<<20)), "is larger than 4 MiB: not a configuration file"},
	} {
		_, err := conf.Load(defaults(), conf.File(c.file))
		if err == nil || strings.TrimLeft(strings.TrimPrefix(err.Error(), c.file), ": ") != c.want {
			t.Errorf("got %v, want %s, then %s", err, c.file, c.want)
		}
	}
	_, err := conf.Load(defaults(), conf.File(filepath.Join(dir, "none.yaml")))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap fs.ErrNotExist", err)
	}
}

// TestHostileSize checks that oversized files are refused quickly.
func TestHostileSize(t *testing.T) {
	bomb := "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [", i, i) + strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10) + "]\n"
	}
	for name, yaml := range map[string]string{
		"aliases":  bomb,
		"brackets": strings.Repeat("[", 1<<20),
		"braces":   strings.Repeat("{a: ", 1<<18),
		"dashes":   strings.Repeat("- ", 5000),
		"lines":    strings.Repeat("a: b\n", 1<<18),
	} {
		start := time.Now()
		_, err := conf.Load(defaults(), conf.Text("run.yaml", yaml))
		if err == nil || !strings.Contains(err.Error(), "too deep or too long") {
			t.Errorf("%s: got %.200v", name, err)
		}
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

func TestManyProblemsFillOneScreen(t *testing.T) {
	var yaml strings.Builder
	for i := range 100 {
		fmt.Fprintf(&yaml, "k%d: 1\n", i)
	}
	_, err := conf.Load(defaults(), conf.Text("run.yaml", yaml.String()))
	var all conf.Errors
	if !errors.As(err, &all) || len(all) != 100 {
		t.Fatalf("got %d problems", len(all))
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 41 || lines[40] != "and 60 more" {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// tuning has obsolete keys.
type tuning struct {
	Depth int `yaml:"depth"`
}

func (tuning) Former() []string { return []string{"width", "shape"} }

// TestFormer checks that obsolete keys and groups are skipped and listed, and other unknown keys refused.
func TestFormer(t *testing.T) {
	type tree struct {
		Tuning tuning `yaml:"tuning"`
	}
	got, err := conf.Load(tree{}, conf.Text("old.yaml", "tuning:\n  width: 3\n  depth: 4\n  shape: {x: 1, y: [2]}\n"), conf.Set("--set", "tuning.width=5"))
	if err != nil || got.Value.Tuning.Depth != 4 {
		t.Fatalf("%+v, %v", got.Value, err)
	}
	var list []string
	for _, p := range got.Former {
		list = append(list, p.Where+" "+p.Path)
	}
	if want := []string{"old.yaml:2 tuning.width", "old.yaml:4 tuning.shape", "--set tuning.width=5 tuning.width"}; !slices.Equal(list, want) {
		t.Errorf("%q, want %q", list, want)
	}
	if _, err := conf.Load(tree{}, conf.Text("old.yaml", "tuning:\n  height: 3\n")); err == nil || !strings.Contains(err.Error(), `unknown key "height"`) {
		t.Errorf("another unknown key: %v", err)
	}
}
