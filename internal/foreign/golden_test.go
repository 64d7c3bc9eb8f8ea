package foreign_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/train"
)

// resolve reads a file and loads it over the defaults.
func resolve(t *testing.T, name, text string, o foreign.Options) (*foreign.File, *conf.Loaded[train.Config], error) {
	t.Helper()
	file, err := foreign.Read(name, text, o)
	if err != nil {
		return nil, nil, err
	}
	sources := []conf.Source{file.Source}
	for _, set := range beside[name] {
		sources = append(sources, conf.Set("--set", set))
	}
	loaded, err := conf.Load(train.Default(), sources...)
	return file, loaded, err
}

// beside are the settings that files leave to the command line.
var beside = map[string][]string{
	"accelerate_qwen2.yaml": {"model.path=qwen2", "data.path=chat.jsonl"},
	"baseline.yaml":         {"data.path=rows.jsonl"},
	"free_transformer.yaml": {"data.path=rows.jsonl"},
}

// show formats a file: its format, its notes and the values that it sets.
func show(t *testing.T, file *foreign.File, loaded *conf.Loaded[train.Config]) string {
	t.Helper()
	var tree strings.Builder
	if err := conf.Print(&tree, loaded.Value, loaded.Origins); err != nil {
		t.Fatal(err)
	}
	out := "format: " + string(file.Format) + "\n" + file.Warning()
	for line := range strings.Lines(tree.String()) {
		if !strings.HasSuffix(line, "# default\n") {
			out += line
		}
	}
	return out
}

// TestGolden compares each file with a golden file. UPDATE=1 rewrites them.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/files/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, loaded, err := resolve(t, name, string(text), foreign.Options{})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", "golden", name+".txt"), show(t, file, loaded))
			again, err := conf.Load(train.Default(), conf.Text("resolved", printed(t, loaded.Value)))
			if err != nil {
				t.Fatalf("does not load: %v", err)
			}
			if a, b := printed(t, loaded.Value), printed(t, again.Value); a != b {
				t.Errorf("loads to another tree: %s", cmp.Diff(a, b))
			}
		})
	}
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(d)
	}
}

func printed(t *testing.T, cfg train.Config) string {
	t.Helper()
	var b strings.Builder
	if err := conf.Print(&b, cfg, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestIndentation checks that a file without indentation is the same file.
func TestIndentation(t *testing.T) {
	for _, name := range []string{"ddp_config", "fsdp_config"} {
		trees := map[string]string{}
		for _, file := range []string{name + ".yaml", name + "_flat.yaml"} {
			text, err := os.ReadFile("testdata/files/" + file)
			if err != nil {
				t.Fatal(err)
			}
			_, loaded, err := resolve(t, file, string(text), foreign.Options{})
			if err != nil {
				t.Fatal(err)
			}
			trees[file] = printed(t, loaded.Value)
		}
		if d := cmp.Diff(trees[name+".yaml"], trees[name+"_flat.yaml"]); d != "" {
			t.Error(d)
		}
	}
}

// found are files of other projects, with the strategy or the error.
var found = map[string]string{
	"accelerate/doc_zero3_param_cpu_optim_nvme.json": "full_shard float16",
	"accelerate/template_deepspeed.yaml":             "zero_stage1_config.json: no such file",
	"accelerate/template_fsdp.yaml":                  "full_shard bfloat16",
	"accelerate/template_multi_gpu.yaml":             "no_shard bfloat16",
	"accelerate/template_multi_node.yaml":            "num_machines is 2: trireme train starts ranks on one machine. try, on each machine: trireme launch --config_file",
	"accelerate/tp_hsdp.yaml":                        "tensor parallelism",
	"accelerate/zero_stage1_config.json":             "zero_1 float16",
	"accelerate/zero_stage2_config.json":             "shard_grad_op float16",
	"accelerate/zero_stage3_offload_config.json":     "full_shard float16",
	"accelerate_tests/0_11_0.yaml":                   "no_shard float32",
	"accelerate_tests/invalid_keys.yaml":             `unknown key "invalid_key"`,
	"accelerate_tests/latest_fsdp.yaml":              "full_shard float32",
	"alignment-handbook/zero3.yaml":                  "full_shard bfloat16",
	"alpaca/default_offload_opt_param.json":          "full_shard float32",
	"axolotl/zero1.json":                             "zero_1 float32",
	"axolotl/zero2.json":                             "shard_grad_op float32",
	"axolotl/zero3_bf16_cpuoffload_all.json":         "full_shard bfloat16",
	"deepspeed/deepspeed_bsz24_fp16_config.json":     "zero_1 float16",
	"deepspeed/ds_config_func_bs8_zero0_gas3.json":   "no_shard float16",
	"dolly/a100_config.json":                         "full_shard bfloat16",
	"llamafactory/ds_z3_offload_config.json":         "full_shard float32",
	"llamafactory/fsdp_config.yaml":                  "full_shard bfloat16",
	"lmflow/zero2.json":                              "shard_grad_op float32",
	"torchtitan/llama3_llama3_8b.toml":               "is TOML",
}

// TestFound checks that each file of other projects loads or fails with the expected error.
func TestFound(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data", "configs")
	if _, err := os.Stat(root); err != nil {
		t.Skip("the files of other projects are not here: ", err)
	}
	seen := 0
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		seen++
		name, _ := filepath.Rel(root, path)
		want, known := found[filepath.ToSlash(name)]
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := foreign.Read(path, string(text), foreign.Options{Ranks: 0})
		if err != nil {
			if !known || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: refused with\n%v\nnot %q", name, err, want)
			}
			return nil
		}
		loaded, err := conf.Load(train.Default(), file.Source, conf.Set("--set", "model.path=m"), conf.Set("--set", "data.path=d"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return nil
		}
		if got := loaded.Value.Parallel.Strategy + " " + loaded.Value.Precision.ParamDType; got != want {
			t.Errorf("%s comes to %s, not %s", name, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != len(found) {
		t.Errorf("%d files, not %d", seen, len(found))
	}
}
