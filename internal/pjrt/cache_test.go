package pjrt_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"trireme/internal/pjrt"
)

func TestSerialize(t *testing.T) {
	c := client(t, 2)
	d := c.Devices()[1]
	o := pjrt.CompileOptions{Params: matmulParams, Devices: []int{1}}
	e := compile(t, c, matmul, o)
	data, err := e.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	loaded, err := c.Deserialize(data, o)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	out := execute(t, loaded, d, upload(t, d, []int{2, 3}, 1, 2, 3, 4, 5, 6), upload(t, d, []int{3, 2}, 1, 0, 0, 1, 1, 1), upload(t, d, []int{2, 2}, 10, 20, 30, 40))
	if got := download(t, out[0]); !slices.Equal(got, []float32{14, 25, 40, 51}) {
		t.Error(got)
	}
	for _, n := range []int{0, 1, 31, 32, 100, len(data) - 1} {
		_, err := c.Deserialize(data[:n], o)
		if !errors.Is(err, pjrt.ErrForeign) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for i := 0; i < len(data); i += 97 {
		bad := bytes.Clone(data)
		bad[i] ^= 4
		if _, err := c.Deserialize(bad, o); !errors.Is(err, pjrt.ErrForeign) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

func TestCompiled(t *testing.T) {
	e := compile(t, client(t, 1), matmul, pjrt.CompileOptions{})
	m, err := e.Memory()
	if err != nil || m.Arguments != 64 || m.Alias != 16 || m.Outputs == 0 {
		t.Errorf("%+v %v", m, err)
	}
	if text, err := e.Text(); err != nil || len(text) < 100 {
		t.Error(len(text), err)
	}
	if f, err := e.Fingerprint(); err != nil || f == "" {
		t.Error(f, err)
	}
}

func TestOptionalFlags(t *testing.T) {
	c := client(t, 1)
	e := compile(t, c, matmul, pjrt.CompileOptions{
		Flags: []pjrt.Flag{{Name: "xla_cpu_enable_fast_math", Value: false}},
		Optional: []pjrt.Flag{
			{Name: "xla_no_such_flag", Value: true}, {Name: "xla_llvm_disable_expensive_passes", Value: true}, {Name: "xla_nor_this", Value: "x"},
		},
	})
	if got := e.Dropped(); !slices.Equal(got, []string{"xla_no_such_flag", "xla_nor_this"}) {
		t.Error(got)
	}
	_, err := c.Compile(matmul, pjrt.CompileOptions{Flags: []pjrt.Flag{{Name: "xla_no_such_flag", Value: true}}})
	refused(t, err, "No such compile option: 'xla_no_such_flag'")
}

func TestCompileCached(t *testing.T) {
	c := client(t, 1)
	d := c.Devices()[0]
	dir := filepath.Join(t.TempDir(), "a", "b")
	o := pjrt.CompileOptions{Params: matmulParams}
	check := func(text string, o pjrt.CompileOptions, hit bool) string {
		t.Helper()
		e, use, err := c.CompileCached(dir, text, o)
		if err != nil || use.Err != nil || use.Hit != hit {
			t.Fatalf("want hit %t: %+v %v", hit, use, err)
		}
		defer e.Close()
		out := execute(t, e, d, upload(t, d, []int{2, 3}, 1, 2, 3, 4, 5, 6), upload(t, d, []int{3, 2}, 1, 0, 0, 1, 1, 1), upload(t, d, []int{2, 2}, 10, 20, 30, 40))
		if got := download(t, out[0]); !slices.Equal(got, []float32{14, 25, 40, 51}) {
			t.Error(got)
		}
		return use.File
	}
	file := check(matmul, o, false)
	check(matmul, o, true)
	check(matmul+"\n", o, false)
	check(matmul, pjrt.CompileOptions{Params: matmulParams, Flags: []pjrt.Flag{{Name: "xla_cpu_enable_fast_math", Value: true}}}, false)
	t.Setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
	check(matmul, o, false)
	t.Setenv("XLA_FLAGS", "")
	check(matmul, o, true)
	// A damaged or foreign file is replaced.
	for _, data := range [][]byte{nil, []byte("not an executable"), make([]byte, 1<<20)} {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		check(matmul, o, false)
		check(matmul, o, true)
	}
	if _, _, err := c.CompileCached(dir, "not a module", o); err == nil {
		t.Error("an error of the compiler was lost")
	}
	// A directory that cannot be written costs only the cache.
	e, use, err := c.CompileCached(filepath.Join(file, "dir"), matmul, o)
	if err != nil || use.Err == nil || use.Hit {
		t.Fatalf("%+v %v", use, err)
	}
	e.Close()
}

func TestEvict(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i, name := range []string{"b.pjrt", "a.pjrt", "note.txt", "c.pjrt"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, make([]byte, 100), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, now, now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		limit int64
		left  []string
	}{{300, []string{"a.pjrt", "b.pjrt", "c.pjrt", "note.txt"}}, {250, []string{"a.pjrt", "c.pjrt", "note.txt"}}, {0, []string{"note.txt"}}} {
		if err := pjrt.Evict(dir, c.limit); err != nil {
			t.Fatal(err)
		}
		var left []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if !slices.Equal(left, c.left) {
			t.Errorf("limit %d: %v", c.limit, left)
		}
	}
}
