package servertest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"trireme/internal/objectstore"
)

// job is a run of the program in a directory of its own.
type job struct {
	t   *testing.T
	exe string
	dir string
}

func newJob(t *testing.T) *job {
	t.Helper()
	j := &job{t: t, exe: filepath.Join(t.TempDir(), "trireme"), dir: t.TempDir()}
	build := exec.Command("go", "-C", "../../..", "build", "-trimpath", "-o", j.exe, "./cmd/trireme") // by the program's own go.mod
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rows := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "{\"text\": \"the quick brown fox %d jumps over the lazy dog, and %d dogs sleep.\"}\n", i*i, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"d/train-1.jsonl": rows(0, 20), "d/train-2.jsonl": rows(20, 40), "d/validation.jsonl": rows(40, 44),
		"m/config.json": `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": 264, "hidden_size": 24,
 "intermediate_size": 52, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
 "rope_theta": 10000, "max_position_embeddings": 32, "tie_word_embeddings": true, "initializer_range": 0.02}`,
		"run.yaml": `data: {sequence_length: 16, cache_dir: cache}
training: {global_batch_size: 4, micro_batch_size: 1, max_steps: 6, lr_scheduler: constant}
checkpoint: {save_every_n_steps: 2}
logging: {tensorboard: false}`,
	} {
		path := filepath.Join(j.dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	j.run("tokenize", "--train", "--vocab_size", "264", "--output", "m", "d/train-1.jsonl")
	j.run("train", "--config", "run.yaml", "--output_dir", "first", "--model", "m", "--set", "model.random_weights=true", "--set", "data.path=d", "--max_steps", "1")
	return j
}

// run runs the program and returns its output.
func (j *job) run(args ...string) string {
	j.t.Helper()
	c := exec.Command(j.exe, args...)
	c.Dir = j.dir
	c.Env = append(os.Environ(), "HF_HUB_OFFLINE=", "HF_HOME="+filepath.Join(j.dir, "hf"), "HOME="+j.dir)
	out, err := c.CombinedOutput()
	if err != nil {
		j.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// upload copies the files of a directory to the store.
func (j *job) upload(dir, key string) {
	j.t.Helper()
	c, err := objectstore.New(j.t.Context(), objectstore.Options{})
	if err != nil {
		j.t.Fatal(err)
	}
	root := filepath.Join(j.dir, filepath.FromSlash(dir))
	if err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		return c.Put(j.t.Context(), objectstore.Path{Bucket: bucket, Key: key + "/" + name}, b)
	}); err != nil {
		j.t.Fatal(err)
	}
}

func (j *job) weights(dir string) []byte {
	j.t.Helper()
	b, err := os.ReadFile(filepath.Join(j.dir, dir, "final_model", "model.safetensors"))
	if err != nil {
		j.t.Fatal(err)
	}
	return b
}

// TestTrain: a run whose model, tokenizer, data and checkpoints are on the store, through the proxy, which spoils one
// request in eight, has the weights of one on the disk, also stopped and resumed by other ranks.
func TestTrain(t *testing.T) {
	url, _ := serve(t)
	p, at := newProxy(t, url)
	environment(t, at)
	j := newJob(t)
	j.upload("d", "data")
	j.upload("first/final_model", "model")
	p.rate = 1.0 / 8

	j.run("train", "--config", "run.yaml", "--output_dir", "local", "--model", "first/final_model", "--set", "data.path=d")
	want := j.weights("local")
	args := func(out string, more ...string) []string {
		return append([]string{"train", "--config", "run.yaml", "--output_dir", out, "--model", "s3://" + bucket + "/model",
			"--set", "data.path=s3://" + bucket + "/data/", "--set", "checkpoint.dir=s3://" + bucket + "/" + out}, more...)
	}
	j.run(args("whole", "--nproc", "2")...)
	if !bytes.Equal(j.weights("whole"), want) {
		t.Error("the weights differ from those of the run on the disk")
	}
	j.run(args("parts", "--nproc", "2", "--set", "parallel.strategy=full_shard", "--set", "checkpoint.async=true", "--max_steps", "3")...)
	if out := j.run(args("parts", "--nproc", "3", "--set", "parallel.strategy=zero_1", "--resume", "auto")...); !strings.Contains(out, "step-3") {
		t.Errorf("the run did not resume at step 3:\n%s", out)
	}
	if !bytes.Equal(j.weights("parts"), want) {
		t.Error("after a resume the weights differ from those of the run on the disk")
	}
	if out := j.run("checkpoint", "diff", "local", "s3://"+bucket+"/parts"); !strings.Contains(out, "all equal") {
		t.Errorf("diff:\n%s", out)
	}
	if out := j.run("checkpoint", "verify", "s3://"+bucket+"/parts"); !strings.Contains(out, "step-6") {
		t.Errorf("verify:\n%s", out)
	}
	t.Logf("requests: %v", p.n)
}
