package train

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trireme/autograd"
	"trireme/checkpoint/safetensors"
	"trireme/collective"
	"trireme/device"
	"trireme/internal/backend/record"
	"trireme/model"
	"trireme/nn"
	"trireme/optim"
	"trireme/parallel"
	"trireme/tensor"
)

// toy is a model of parameters without computation.
type toy struct {
	units []*nn.Unit
	vocab int
}

func newToy(vocab int) *toy {
	std := nn.Init{Kind: nn.Normal, Std: 1}
	return &toy{vocab: vocab, units: []*nn.Unit{
		{Name: "embed", Params: []*nn.Param{nn.NewParam("net.embed.weight", std, vocab, 3)}},
		{Name: "layer", Params: []*nn.Param{nn.NewParam("net.layer.weight", std, 5, 3), nn.NewParam("net.layer.bias", nn.Init{Kind: nn.Zeros}, 5)}},
		{Name: "head", Params: []*nn.Param{nn.NewParam("head.weight", std, 2, 5)}},
	}}
}

func (m *toy) Units() []*nn.Unit { return m.units }
func (m *toy) Forward(*autograd.Tape, int, *autograd.Var, model.Batch, *tensor.Tensor) *autograd.Var {
	return nil
}
func (m *toy) Logits(*autograd.Tape, model.Batch, ...int) *tensor.Tensor { return nil }
func (m *toy) Info() model.Info                                          { return model.Info{Vocab: m.vocab} }

var toyFamily = model.Family{
	Aliases:          func(p string) []string { return []string{strings.TrimPrefix(p, "net.")} },
	IgnoreMissing:    func(p string) bool { return strings.HasPrefix(p, "head.") },
	IgnoreUnexpected: func(n string) bool { return strings.HasSuffix(n, ".ids") },
}

func file(t *testing.T, entries ...safetensors.Entry) *safetensors.Files {
	t.Helper()
	l, err := safetensors.NewLayout(entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), safetensors.ModelFile)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(l.Size()); err != nil {
		t.Fatal(err)
	}
	if err := l.WriteHeader(f); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		v := make([]float32, e.Shape.Elems())
		for i := range v {
			v[i] = float32(i) + 0.5
		}
		b := append(tensor.AsBytes(v), make([]byte, 4*len(v))...) // room for I64
		if e.DType == tensor.BF16 || e.DType == tensor.F16 {
			b = make([]byte, 2*len(v))
			safetensors.Convert(b, e.DType, tensor.AsBytes(v), tensor.F32)
		}
		if err := l.WriteRange(f, e.Name, 0, b[:e.Bytes()]); err != nil {
			t.Fatal(err)
		}
	}
	files, err := safetensors.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return files
}

func entry(name string, dt tensor.DType, shape ...int) safetensors.Entry {
	return safetensors.Entry{Name: name, DType: dt, Shape: shape}
}

// Weights load and initialize on a backend without host memory.
func TestLoadUnseen(t *testing.T) {
	cpu, err := device.Open("cpu", device.Options{Threads: 1, Reserve: 1 << 26})
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Close()
	worlds, err := collective.NewLocal(1, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer worlds[0].Close()
	b := record.New(cpu)
	mesh, err := parallel.NewMesh(b.World(worlds[0]), parallel.MeshShape{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := newToy(7)
	for _, p := range model.Params(m) {
		p.Frozen = true
	}
	e, err := parallel.New(b, mesh, m.Units(), parallel.Options{Strategy: parallel.Strategy{Name: "no_shard"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	w, err := ModelConfig{}.match(m, &model.Config{Family: toyFamily, FilesVocab: 4},
		file(t, entry("net.embed.weight", tensor.BF16, 4, 3), entry("net.layer.weight", tensor.F32, 5, 3), entry("net.layer.bias", tensor.F32, 5)))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.load(b, e, 1); err != nil {
		t.Fatal(err)
	}
	read := map[string]int{"net.embed.weight": 12, "net.layer.weight": 15, "net.layer.bias": 5}
	for _, s := range e.HeldParams() {
		got := make([]float32, s.Data.Elems())
		b.Download(tensor.AsBytes(got), s.Data)
		for i, v := range got {
			if fromFile := float32(i) + 0.5; (v == fromFile) != (i < read[s.Name]) {
				t.Errorf("element %d of %s is %v", i, s.Name, v)
			}
		}
	}
}

func TestMatch(t *testing.T) {
	embed, layer, bias, head := entry("net.embed.weight", tensor.F32, 7, 3), entry("net.layer.weight", tensor.F32, 5, 3), entry("net.layer.bias", tensor.F32, 5), entry("head.weight", tensor.F32, 2, 5)
	type entries = []safetensors.Entry
	for what, c := range map[string]struct {
		files entries
		c     ModelConfig
		was   int
		fresh string
		other string
		note  string
		err   string
	}{
		"whole":                       {files: entries{embed, layer, bias, head}},
		"without the prefix":          {files: entries{entry("embed.weight", tensor.F32, 7, 3), entry("layer.weight", tensor.F32, 5, 3), bias, head}},
		"in other types":              {files: entries{entry("net.embed.weight", tensor.BF16, 7, 3), entry("net.layer.weight", tensor.F16, 5, 3), bias, head}},
		"without a head":              {files: entries{embed, layer, bias}, fresh: "head.weight"},
		"an ignored tensor":           {files: entries{embed, layer, bias, head, entry("position.ids", tensor.I64, 1)}},
		"missing":                     {files: entries{layer, head}, err: ": 2 tensors missing: net.embed.weight, net.layer.bias. try: a model of this config.json, or model.allow_missing=[net.embed.weight,net.layer.bias] to initialize them"},
		"all missing":                 {files: entries{entry("extra.weight", tensor.F32, 1)}, err: "has none of the model's tensors, such as net.embed.weight, net.layer.weight, net.layer.bias. try: a model of this config.json, or model.random_weights=true"},
		"missing and allowed":         {files: entries{layer, head}, c: ModelConfig{AllowMissing: []string{"net.embed.*", "net.layer.bias"}}, fresh: "net.embed.weight net.layer.bias"},
		"unexpected":                  {files: entries{embed, layer, bias, head, entry("extra.weight", tensor.F32, 1)}, err: ": 1 tensor not in the model: extra.weight. try: the model's own config.json, or model.allow_unexpected=[extra.weight] to ignore it"},
		"unexpected and allowed":      {files: entries{embed, layer, bias, head, entry("extra.weight", tensor.F32, 1)}, c: ModelConfig{AllowUnexpected: []string{"extra*"}}},
		"twice, under both names":     {files: entries{embed, layer, bias, head, entry("layer.weight", tensor.F32, 5, 3)}, err: "layer.weight"},
		"another shape":               {files: entries{embed, entry("net.layer.weight", tensor.F32, 3, 5), bias, entry("head.weight", tensor.F32, 4, 5)}, c: ModelConfig{AllowMissing: []string{"head.*"}}, err: "net.layer.weight is [3 5], config.json makes it [5 3]. try: a model of this config.json, or model.allow_missing=[net.layer.weight] to initialize it"},
		"another shape, fresh":        {files: entries{embed, layer, bias, entry("head.weight", tensor.F32, 4, 5)}, err: "head.weight is [4 5], config.json makes it [2 5]"},
		"another shape, and allowed":  {files: entries{embed, layer, bias, entry("head.weight", tensor.F32, 4, 5)}, c: ModelConfig{AllowMissing: []string{"head.*"}}, other: "head.weight"},
		"integers":                    {files: entries{embed, layer, entry("net.layer.bias", tensor.I32, 5), head}, err: "net.layer.bias I32[5] has an unsupported type"},
		"a smaller vocabulary":        {files: entries{entry("net.embed.weight", tensor.F32, 4, 3), layer, bias, head}, was: 4},
		"a larger vocabulary":         {files: entries{entry("net.embed.weight", tensor.F32, 9, 3), layer, bias, head}, was: 9, note: "vocabulary resized to 7 rows, the last 2 in the files are dropped: net.embed.weight"},
		"a vocabulary not asked for":  {files: entries{entry("net.embed.weight", tensor.F32, 4, 3), layer, bias, head}, err: "net.embed.weight is [4 3], config.json makes it [7 3]"},
		"a vocabulary of other files": {files: entries{entry("net.embed.weight", tensor.F32, 4, 3), layer, bias, head}, was: 5, err: "net.embed.weight is [4 3]"},
	} {
		w, err := c.c.match(newToy(7), &model.Config{Family: toyFamily, FilesVocab: c.was}, file(t, c.files...))
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", what, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case strings.Join(w.missing, " ") != c.fresh || strings.Join(w.reshaped, " ") != c.other:
			t.Errorf("%s: initialized %v and, of another shape, %v, want %s and %s", what, w.missing, w.reshaped, c.fresh, c.other)
		case !strings.Contains(strings.Join(w.notes(), "\n"), c.note) || (c.other == "") == strings.Contains(strings.Join(w.notes(), "\n"), "of another shape"):
			t.Errorf("%s: notes are %q, want %q", what, w.notes(), c.note)
		}
	}
}

// TestAllow checks that the setting a message suggests accepts every tensor it names.
func TestAllow(t *testing.T) {
	var many, deep []string
	for i := range 3 {
		many = append(many, fmt.Sprintf("model.layers.1%d.up.weight", i), fmt.Sprintf("model.layers.1%d.down.weight", i))
	}
	for i := range 20 {
		deep = append(deep, fmt.Sprintf("h.%d.weight", i))
	}
	for want, names := range map[string][]string{
		"model.allow_missing=[a.weight,h.0]":                                                  {"a.weight", "h.0"},
		"model.allow_missing=[model.layers.10.*,model.layers.11.*,model.layers.12.*,lm_head]": append(many, "lm_head"),
		"model.allow_missing=[*]":                                                             deep,
	} {
		got := allow("allow_missing", names).String()
		if got != want {
			t.Errorf("%v: %s, want %s", names, got, want)
		}
		_, list, _ := strings.Cut(got, "[")
		patterns := strings.Split(strings.TrimSuffix(list, "]"), ",")
		for _, name := range names {
			if !matchesAny(patterns, name) {
				t.Errorf("%s does not accept %s", got, name)
			}
		}
	}
}

// In any world, a resized parameter has the file's values where they exist and initial values elsewhere.
func TestLoadGrown(t *testing.T) {
	files := file(t, entry("net.embed.weight", tensor.F32, 4, 3), entry("net.layer.weight", tensor.BF16, 5, 3), entry("net.layer.bias", tensor.F16, 5))
	fresh := map[string][]float32{}
	onRanks(t, 1, func(b tensor.Backend, e *parallel.Engine, m *toy) {
		e.Init(3)
		collect(e, fresh)
	})
	for world := range 4 {
		got := map[string][]float32{}
		onRanks(t, world+1, func(b tensor.Backend, e *parallel.Engine, m *toy) {
			w, err := ModelConfig{}.match(m, &model.Config{Family: toyFamily, FilesVocab: 4}, files)
			if err == nil {
				err = w.load(b, e, 3)
			}
			if err != nil {
				t.Fatal(err)
			}
			collect(e, got)
		})
		for name, v := range got {
			known := map[string]int{"net.embed.weight": 12, "net.layer.weight": 15, "net.layer.bias": 5}[name]
			for i, x := range v {
				want := float32(i) + 0.5
				if i >= known {
					want = fresh[name][i]
				}
				if math.Float32bits(x) != math.Float32bits(want) {
					t.Errorf("%d ranks: %s, element %d is %v, want %v", world+1, name, i, x, want)
				}
			}
		}
		if n := len(got); n != 4 {
			t.Errorf("%d ranks: %d parameters", world+1, n)
		}
	}
}

// onRanks runs f for each rank of a fully sharded world in order.
func onRanks(t *testing.T, size int, f func(tensor.Backend, *parallel.Engine, *toy)) {
	t.Helper()
	worlds, err := collective.NewLocal(size, collective.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range worlds {
		b, err := device.Open("cpu", device.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		mesh, err := parallel.NewMesh(w, parallel.MeshShape{parallel.Shard: size}, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := newToy(7)
		s, _, err := parallel.Default().Resolve(size, 0)
		if err != nil {
			t.Fatal(err)
		}
		e, err := parallel.New(b, mesh, m.Units(), parallel.Options{Strategy: s, Optim: optim.Grouping{Optimizer: optim.AdamW{}}})
		if err != nil {
			t.Fatal(err)
		}
		f(b, e, m)
		e.Close()
		b.Close()
	}
	for _, w := range worlds {
		w.Close()
	}
}

func collect(e *parallel.Engine, into map[string][]float32) {
	for _, s := range e.OwnedParams() {
		if into[s.Name] == nil {
			into[s.Name] = make([]float32, s.Shape.Elems())
		}
		for run := range s.Runs() {
			copy(into[s.Name][run.Y:], tensor.Host[float32](s.Data)[run.X:run.X+run.N])
		}
	}
}
