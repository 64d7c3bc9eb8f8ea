package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// python3 makes a fake python3 the only program of its name in PATH. Its virtual environments have a copy of it.
func python3(t *testing.T, text string) {
	t.Helper()
	path := script(t, "python3", text)
	t.Setenv("PATH", filepath.Dir(path)+":/usr/bin:/bin")
}

func TestInstall(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	log := filepath.Join(cache, "log")
	python3(t, `echo "$*" >>`+log+`
if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python3"; fi
`)
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(user, "trireme", "bench", "torch-"+torchVersion)
	var progress bytes.Buffer
	for i := range 3 { // the second finds it, the third what an older command installed
		if i == 2 {
			if err := os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p, err := newPeer(t.Context(), pyTorch, "", t.TempDir(), &progress)
		if err != nil || p.python != filepath.Join(dir, "bin", "python3") {
			t.Fatal(p, err)
		}
	}
	text, err := os.ReadFile(log)
	pip := "-m pip --disable-pip-version-check install --quiet " + strings.Join(pyTorch.requirements(), " ") + "\n"
	if want := "-m venv " + dir + "\n" + pip + pip; err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
	if got := progress.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "installing PyTorch "+torchVersion+" in "+dir) {
		t.Error(got)
	}
}

// TestInstallFails: the error is one line with what to do, and the next command tries again.
func TestInstallFails(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"venv": {"echo 'ensurepip is not available'; exit 1", "ensurepip is not available. try: install Python's venv, or -python FILE that imports torch"},
		"pip": {`if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python3"; exit; fi
echo 'ERROR: Could not find a version' >&2; echo 'ERROR: No matching distribution found' >&2; exit 1`,
			"pip install " + strings.Join(pyTorch.requirements(), " ") + ": ERROR: No matching distribution found. try: pip's environment variables"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache", "torch")
			python3(t, c.script)
			for range 2 {
				_, err := pyTorch.install(t.Context(), dir, io.Discard)
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want %s", err, c.want)
				}
			}
		})
	}
	t.Run("no python", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := pyTorch.install(t.Context(), filepath.Join(t.TempDir(), "torch"), io.Discard); err == nil || !strings.HasPrefix(err.Error(), "python3 is not in PATH. try: ") {
			t.Error(err)
		}
		if _, err := build(t.Context(), t.TempDir(), io.Discard); err == nil || !strings.HasSuffix(err.Error(), ". try: -trireme FILE") {
			t.Error(err)
		}
	})
}

func TestPeerEnv(t *testing.T) {
	for _, c := range []struct{ instructions, kernels, want string }{
		{"auto", "avx512bf16", "OPENBLAS_CORETYPE=SkylakeX"},
		{"auto", "amx", "OPENBLAS_CORETYPE=SkylakeX"},
		{"avx512", "avx512", "OPENBLAS_CORETYPE=SkylakeX"},
		{"avx512", "avx512", "ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI"},
		{"avx512", "avx512", "MKL_ENABLE_INSTRUCTIONS=AVX512"},
		{"avx2", "avx2", "OPENBLAS_CORETYPE=Haswell"},
		{"avx2", "avx2", "ATEN_CPU_CAPABILITY=avx2"},
		{"avx2", "avx2", "ONEDNN_MAX_CPU_ISA=AVX2"},
		{"avx2", "avx2", "MKL_ENABLE_INSTRUCTIONS=AVX2"},
	} {
		if env := peerEnv(c.instructions, c.kernels); !slices.Contains(env, c.want) {
			t.Errorf("%s on %s: %q has no %s", c.instructions, c.kernels, env, c.want)
		}
	}
	for _, kernels := range []string{"avx2", "neon"} {
		if env := strings.Join(peerEnv("auto", kernels), " "); strings.Contains(env, "CORETYPE") || strings.Contains(env, "ATEN") {
			t.Errorf("%s: %s", kernels, env)
		}
	}
}

// TestPeerWithoutTorch runs the real program with a Python that may lack PyTorch.
func TestPeerWithoutTorch(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: python3 is not in PATH")
	}
	dir := t.TempDir()
	torch := filepath.Join(dir, "torch.py") // found before an installed one
	if err := os.WriteFile(torch, []byte("raise ImportError('there is\\nno torch')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := newPeer(t.Context(), pyTorch, "python3", dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"version"}, {"step", "--ranks", "2"}, {"gemm", "--shapes", "1x1x1"}, {"collectives"}} {
		_, err := p.run("auto", "", args...)(t.Context())
		if want := "PyTorch " + args[0] + ": ImportError: there is"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := os.WriteFile(torch, []byte("__version__ = '1.13.1'\nbackends = None\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if version, _, err := p.version(t.Context(), "auto"); err != nil || version != "1.13.1" {
		t.Error(version, err)
	}
	if _, err := p.run("auto", "", "gemm", "--dtype", "bfloat16")(t.Context()); err == nil || !strings.Contains(err.Error(), "bfloat16 needs PyTorch 2.x, this is 1.13.1") {
		t.Error(err)
	}
}
