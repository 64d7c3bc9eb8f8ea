package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"trireme/internal/flock"
)

// torchVersion is the version of PyTorch that is installed.
const torchVersion = "2.9.1"

var (
	//go:embed peer.py
	peerProgram []byte
	//go:embed peer_step.py
	peerStep []byte
	//go:embed peer_generate.py
	peerGenerate []byte
	//go:embed peer_llama.py
	peerLlama []byte
	//go:embed peer_tokenize.py
	peerTokenize []byte
)

// library is a package of PyPI and the programs that import it.
type library struct {
	name, pkg, version string
	more               []string // further requirements
	cost               string   // of its installation
	program            string
	files              map[string][]byte
}

var (
	pyTorch = library{"PyTorch", "torch", torchVersion, []string{"safetensors==0.8.0", "transformers==4.57.1"}, "some minutes and gigabytes", "peer.py",
		map[string][]byte{"peer.py": peerProgram, "peer_step.py": peerStep, "peer_generate.py": peerGenerate}}
	llamaCpp = library{"llama.cpp", "cyllama", "0.2.18", nil, "some megabytes", "peer_llama.py",
		map[string][]byte{"peer_llama.py": peerLlama}}
	huggingFace = library{"tokenizers", "tokenizers", "0.23.3", nil, "some megabytes", "peer_tokenize.py",
		map[string][]byte{"peer_tokenize.py": peerTokenize}}
)

// peer is a library that trireme is compared with.
type peer struct {
	library
	python string
	dir    string // has the program, and what it wrote
}

// newPeer writes the program to dir. Without python it installs the library in the user's cache directory, unless
// it is there.
func newPeer(ctx context.Context, l library, python, dir string, progress io.Writer) (*peer, error) {
	if python == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("no directory for %s: %w. try: -python FILE", l.name, err)
		}
		if python, err = l.install(ctx, filepath.Join(cache, "trireme", "bench", l.pkg+"-"+l.version), progress); err != nil {
			return nil, err
		}
	}
	for name, text := range l.files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	return &peer{l, python, dir}, nil
}

// requirements are pip's arguments.
func (l library) requirements() []string {
	return append([]string{l.pkg + "==" + l.version}, l.more...)
}

// install creates a virtual environment with the library in dir and returns its Python. A file in dir lists what a
// complete one has; older commands may have installed less.
func (l library) install(ctx context.Context, dir string, progress io.Writer) (string, error) {
	python, complete := filepath.Join(dir, "bin", "python3"), filepath.Join(dir, "complete")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	unlock, err := flock.Lock(ctx, dir+".lock", 0o644, func() { fmt.Fprintln(progress, "waiting for another installation in", dir) })
	if err != nil {
		return "", err
	}
	defer unlock()
	want := strings.Join(l.requirements(), " ")
	have, err := os.ReadFile(complete)
	if err == nil && string(have) == want {
		return python, nil
	}
	if _, err := exec.LookPath("python3"); err != nil {
		return "", fmt.Errorf("python3 is not in PATH. try: install Python 3, or -python FILE that imports %s", l.pkg)
	}
	fmt.Fprintf(progress, "installing %s %s in %s, once: %s\n", l.name, l.version, dir, l.cost)
	if err != nil {
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
		if _, err := output(command(ctx, "python3", "-m", "venv", dir)); err != nil {
			return "", fmt.Errorf("python3 -m venv %s: %w. try: install Python's venv, or -python FILE that imports %s", dir, err, l.pkg)
		}
	}
	pip := append([]string{"-m", "pip", "--disable-pip-version-check", "install", "--quiet"}, l.requirements()...)
	if _, err := output(command(ctx, python, pip...)); err != nil {
		return "", fmt.Errorf("pip install %s: %w. try: pip's environment variables for an index or a proxy, or -python FILE that imports %s", want, err, l.pkg)
	}
	return python, os.WriteFile(complete, []byte(want), 0o644)
}

// version returns the version of PyTorch and the instruction set that it selects.
func (p *peer) version(ctx context.Context, instructions string) (version, set string, err error) {
	o, err := decode(p.command(ctx, instructions, "", "version"), p.python)
	if err != nil {
		return "", "", fmt.Errorf("%w. try: -python FILE that imports torch, or no -python to install PyTorch %s", err, torchVersion)
	}
	version, _ = o["torch"].(string)
	set, _ = o["instructions"].(string)
	return version, set, nil
}

// run runs the program. kernels is the instruction set that trireme selects.
func (p *peer) run(instructions, kernels string, args ...string) measurement {
	return func(ctx context.Context) (object, error) {
		began := strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)
		return decode(p.command(ctx, instructions, kernels, append(args, "--began", began)...), "PyTorch "+args[0])
	}
}

func (p *peer) start(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, p.python, append([]string{filepath.Join(p.dir, p.program)}, args...)...)
}

// tokenizers is a run of Hugging Face's library, on one thread except to train.
func (p *peer) tokenizers(ctx context.Context, args ...string) *exec.Cmd {
	c := p.start(ctx, args...)
	c.Env = append(c.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if args[0] != "train" {
		c.Env = append(c.Env, "RAYON_NUM_THREADS=1", "TOKENIZERS_PARALLELISM=false")
	}
	return c
}

func (p *peer) command(ctx context.Context, instructions, kernels string, args ...string) *exec.Cmd {
	c := p.start(ctx, args...)
	c.Env = append(c.Environ(), peerEnv(instructions, kernels)...)
	c.Env = append(c.Env, "TORCHINDUCTOR_CACHE_DIR="+filepath.Join(p.dir, "inductor-"+instructions))
	return c
}

// peerEnv is the fastest environment for PyTorch: no spinning threads, memory kept between steps, and
// AVX-512 kernels on processors that an old OpenBLAS does not detect. avx2 and avx512 restrict its libraries, avx512 to what
// processors before bfloat16 instructions have.
func peerEnv(instructions, kernels string) []string {
	env := []string{
		"OMP_WAIT_POLICY=PASSIVE", "MALLOC_MMAP_THRESHOLD_=4294967296", "MALLOC_TRIM_THRESHOLD_=17179869184",
		"MALLOC_TOP_PAD_=268435456", "PYTHONWARNINGS=ignore", "PYTHONDONTWRITEBYTECODE=1",
	}
	switch {
	case instructions == "avx512":
		env = append(env, "ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI", "MKL_ENABLE_INSTRUCTIONS=AVX512", "OPENBLAS_CORETYPE=SkylakeX")
	case instructions == "avx2":
		env = append(env, "ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2", "MKL_ENABLE_INSTRUCTIONS=AVX2", "OPENBLAS_CORETYPE=Haswell")
	case strings.HasPrefix(kernels, "avx512"), kernels == "amx":
		env = append(env, "OPENBLAS_CORETYPE=SkylakeX")
	}
	return env
}
