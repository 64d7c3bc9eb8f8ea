package convert

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/internal/pickle"
	"trireme/internal/torchfile"
	"trireme/tensor"
)

// wanted is NAME.json of a fixture.
type wanted struct {
	Tensors map[string]struct {
		DType string
		Shape tensor.Shape
		Hex   string
	}
	Step   int
	ExpAvg map[string][]float32 `json:"exp_avg"`
}

func readWanted(t *testing.T, name string) (w wanted) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err == nil {
		err = json.Unmarshal(b, &w)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// values returns the tensors of a kind: type, shape and bytes as text.
func values(t *testing.T, s *Source, kind string) map[string]string {
	t.Helper()
	got, err := read(s, kind)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func read(s *Source, kind string) (map[string]string, error) {
	got := map[string]string{}
	for _, x := range s.Tensors {
		if x.Kind != kind {
			continue
		}
		b := make([]byte, x.Bytes())
		for at, n := 0, x.Shape.Elems(); at < n; at += 5 { // ranges that cross chunks and partitions
			count := min(5, n-at)
			if err := x.Read(at, count, b[at*x.Type.Size():(at+count)*x.Type.Size()]); err != nil {
				return nil, err
			}
		}
		dt, _ := x.Type.DType()
		got[x.Name] = text(dt.String(), x.Shape, hex.EncodeToString(b))
	}
	return got, nil
}

func text(dtype string, shape tensor.Shape, hex string) string {
	b, _ := json.Marshal([]any{dtype, append(tensor.Shape{}, shape...), hex})
	return string(b)
}

func (w wanted) values() map[string]string {
	want := map[string]string{}
	for name, x := range w.Tensors {
		want[name] = text(x.DType, x.Shape, x.Hex)
	}
	return want
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s is %s, want %s", what, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is not expected", what, name)
		}
	}
}

var fixtures = []struct{ name, path, format string }{
	{"plain", "plain.pt", "a file of torch.save"},
	{"float8", "float8.pt", "a file of torch.save"},
	{"steps", "steps", "checkpoint_step_10.pt"},
	{"bin", "bin", "a Hugging Face directory with pytorch_model.bin.index.json"},
	{"dcp", "dcp", "a torch.distributed.checkpoint directory"},
	{"hf-safetensors-f32-sharded", "hf-safetensors-f32-sharded", "a Hugging Face directory"},
	{"hf-safetensors-bf16", "hf-safetensors-bf16", "a Hugging Face directory"},
	{"hf-bin-f32", "hf-bin-f32", "a Hugging Face directory with pytorch_model.bin"},
	{"hf-bin-bf16-sharded", "hf-bin-bf16-sharded", "a Hugging Face directory with pytorch_model.bin.index.json"},
	{"accelerate", "accelerate", "a Hugging Face directory"},
	{"accelerate-fsdp", "accelerate-fsdp", "a directory of Accelerate with FSDP"},
	{"accelerate-fsdp-full", "accelerate-fsdp-full", "a directory of Accelerate with FSDP"},
	{"deepspeed-zero1", "deepspeed-zero1", "a DeepSpeed ZeRO-1 checkpoint of 2 ranks"},
	{"deepspeed-zero2", "deepspeed-zero2", "a DeepSpeed ZeRO-2 checkpoint of 2 ranks"},
	{"deepspeed-zero3", "deepspeed-zero3", "a DeepSpeed ZeRO-3 checkpoint of 2 ranks"},
	{"zero1", "zero1", "a DeepSpeed ZeRO-1 checkpoint of 2 ranks"},
	{"zero2", "zero2", "a DeepSpeed ZeRO-2 checkpoint of 3 ranks"},
	{"zero3", "zero3/global_step6", "a DeepSpeed ZeRO-3 checkpoint of 3 ranks"},
}

// TestSources: every fixture has the tensors that PyTorch saved.
func TestSources(t *testing.T) {
	for _, f := range fixtures {
		s, err := Open(filepath.Join("testdata", f.path))
		if err != nil {
			t.Error(err)
			continue
		}
		w := readWanted(t, f.name)
		same(t, f.name, values(t, s, checkpoint.Param), w.values())
		if s.Format != f.format || s.Step != w.Step {
			t.Errorf("%s: %q, step %d, want %q, step %d", f.name, s.Format, s.Step, f.format, w.Step)
		}
		for name, want := range w.ExpAvg {
			var b []byte
			for _, v := range want {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
			if got := values(t, s, "exp_avg")[name]; !strings.Contains(got, `"`+hex.EncodeToString(b)+`"`) {
				t.Errorf("%s: exp_avg of %s is %s", f.name, name, got)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEpochs: checkpoint_epoch_N.pt is read where there is no checkpoint_step_N.pt.
func TestEpochs(t *testing.T) {
	dir := t.TempDir()
	for from, to := range map[string]string{"checkpoint_step_10.pt": "checkpoint_epoch_10.pt", "checkpoint_step_2.pt": "checkpoint_epoch_9.pt"} {
		b, err := os.ReadFile(filepath.Join("testdata/steps", from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	same(t, "epochs", values(t, s, checkpoint.Param), readWanted(t, "steps").values())
	if s.Format != "checkpoint_epoch_10.pt" {
		t.Error(s.Format)
	}
}

// TestNumberedMoments: nothing is taken of an optimizer that names some of its parameters only, and state that is neither
// moments nor steps is noted.
func TestNumberedMoments(t *testing.T) {
	f, err := torchfile.Open("testdata/accelerate-fsdp-full/optimizer.bin", torchfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	optimizer := f.Value().(*pickle.Dict)
	v, _ := optimizer.Get("state")
	state := v.(*pickle.Dict)
	slots := state.Values[0].(*pickle.Dict)
	slots.Set("max_exp_avg_sq", slots.Values[0])
	var named Source
	if steps, ok, err := named.addMoments(optimizer); err != nil || !ok || len(steps) != len(state.Keys) || len(named.Tensors) != 2*len(steps) {
		t.Errorf("%v, %t, %v: %v", steps, ok, err, named.Tensors)
	}
	if len(named.Notes) != 1 || !strings.Contains(named.Notes[0], "max_exp_avg_sq of embed.weight") {
		t.Errorf("notes: %q", named.Notes)
	}
	state.Set(int64(0), slots)
	var numbered Source
	if steps, ok, err := numbered.addMoments(optimizer); err != nil || ok || len(steps)+len(numbered.Tensors)+len(numbered.Notes) > 0 {
		t.Errorf("numbered: %v, %t, %v: %v %q", steps, ok, err, numbered.Tensors, numbered.Notes)
	}
}

// TestRoundTrips converts every fixture to a Hugging Face directory and to DCP and reads it again.
func TestRoundTrips(t *testing.T) {
	for _, f := range fixtures {
		for _, to := range []string{"hf", "dcp"} {
			dir := filepath.Join(t.TempDir(), "out")
			convertTo(t, to, filepath.Join("testdata", f.path), dir, Options{Under: map[string]string{"dcp": "model"}[to]})
			s, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			w := readWanted(t, f.name)
			same(t, f.name+" to "+to, values(t, s, checkpoint.Param), w.values())
			if to == "dcp" && w.ExpAvg != nil {
				from, err := Open(filepath.Join("testdata", f.path))
				if err != nil {
					t.Fatal(err)
				}
				for _, kind := range []string{"exp_avg", "exp_avg_sq"} {
					same(t, f.name+" "+kind, values(t, s, kind), values(t, from, kind))
				}
				if s.Step != w.Step || s.Step == 0 {
					t.Errorf("%s: step %d, want %d", f.name, s.Step, w.Step)
				}
				from.Close()
			}
			s.Close()
		}
	}
}

func convertTo(t *testing.T, to, from, dir string, o Options) Written {
	t.Helper()
	s, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	target, ok := FindTarget(to)
	if !ok {
		t.Fatalf("no target %s", to)
	}
	w, err := target.Run(t.Context(), s, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestDType: floats are converted, other types are not, and values beyond float16 leave nothing behind.
func TestDType(t *testing.T) {
	for _, to := range []string{"hf", "dcp"} {
		dir := filepath.Join(t.TempDir(), "out")
		convertTo(t, to, "testdata/plain.pt", dir, Options{DType: "bfloat16"})
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]safetensors.Type{}
		for _, x := range s.Tensors {
			got[x.Name] = x.Type
		}
		if got["f64"] != "BF16" || got["f32"] != "BF16" || got["f16"] != "BF16" || got["i64"] != "I64" || got["u8"] != "U8" {
			t.Error(to, got)
		}
		if v := values(t, s, checkpoint.Param)["f64"]; !strings.Contains(v, "c03f00c0") {
			t.Error(v)
		}
		s.Close()

		target, _ := FindTarget(to)
		source, err := Open("testdata/plain.pt")
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(t.TempDir(), "half")
		if _, err = target.Run(t.Context(), source, dir, Options{DType: "float16"}); err == nil || !strings.Contains(err.Error(), "65504") || exists(dir) {
			t.Errorf("%v; the target exists: %t", err, exists(dir))
		}
		source.Close()
	}
}

// TestZeroRefuses: missing ranks and partitions of another size are refused.
func TestZeroRefuses(t *testing.T) {
	for _, c := range []struct{ from, drop, want string }{
		{"zero1", "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", "the optimizer states of 1 of 2 ranks"},
		{"zero2", "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", "only 2 of 3 such files"},
		{"zero3", "zero_pp_rank_2_mp_rank_00_model_states.pt", "the model states of 2 of 3 ranks"},
		{"zero1", "mp_rank_00_model_states.pt", "has no *_model_states.pt"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", c.from))); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "global_step6", c.drop)); err != nil {
			t.Fatal(err)
		}
		refuses(t, dir, c.want)
	}
	refuses(t, "testdata/evil.pt", "posix.system")
	refuses(t, t.TempDir(), "has no checkpoint")
}

func refuses(t *testing.T, path, want string) {
	t.Helper()
	s, err := Open(path)
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, without %q", path, err, want)
	}
}

// A tensor whose metadata has another class is not left out.
func TestUnknownClass(t *testing.T) {
	const dir, class = "accelerate-fsdp", "TensorStorageMetadata"
	path := copied(dir)(t, t.TempDir())
	name := filepath.Join(path, "optimizer_0", dcpMetadata)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte(class))] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	refuses(t, path, `unknown class "UensorStorageMetadata"`)
}

func TestClean(t *testing.T) {
	for name, want := range map[string]string{
		"module.a.weight": "a.weight", "_orig_mod.module.a": "a", "module.module.a": "a", "a.module.b": "a.module.b",
		"_fsdp_wrapped_module.layers.0._checkpoint_wrapped_module.w": "layers.0.w", "module": "module", "a": "a",
	} {
		if got := clean(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestFloat8(t *testing.T) {
	for b, want := range map[byte]float32{0: 0, 0x38: 1, 0xb8: -1, 0x7e: 448, 1: 0x1p-9, 8: 0x1p-6} {
		if got := float8(b, false); got != want {
			t.Errorf("E4M3 %#x is %v, want %v", b, got, want)
		}
	}
	for b, want := range map[byte]float32{0: 0, 0x3c: 1, 0x7b: 57344, 0x7c: float32(math.Inf(1)), 1: 0x1p-16} {
		if got := float8(b, true); got != want {
			t.Errorf("E5M2 %#x is %v, want %v", b, got, want)
		}
	}
	if x, y := float8(0x7f, false), float8(0x7d, true); x == x || y == y {
		t.Error("NaN is a number")
	}
}

// FuzzDCP reads any .metadata.
func FuzzDCP(f *testing.F) {
	for _, dir := range []string{"dcp", "accelerate-fsdp/pytorch_model_fsdp_0", "accelerate-fsdp/optimizer_0"} {
		b, err := os.ReadFile(filepath.Join("testdata", dir, dcpMetadata))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(bytes.Repeat([]byte("]"), 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _, err := parseDCP(b)
		if err != nil {
			return
		}
		for _, x := range all {
			n := 0
			for _, c := range x.chunks {
				if !c.In(x.shape) {
					t.Fatalf("%s: chunk %v is outside %v", x.key, c.Box, x.shape)
				}
				n += c.Elems()
			}
			if n != x.shape.Elems() {
				t.Fatalf("%s: %d of %d elements", x.key, n, x.shape.Elems())
			}
		}
	})
}
