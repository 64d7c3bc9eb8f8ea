package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"trireme/internal/durable"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	for _, text := range []string{"first", "", "third and longer"} {
		if err := durable.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v: want %q", got, err, text)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	onlyEntry(t, dir, "a.json")
}

// If the rename fails, the old contents stay and nothing else is left.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "taken", "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "taken"), []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	if err := durable.WriteFile(filepath.Join(dir, "missing", "a"), []byte("x")); err == nil {
		t.Error("a file was written where there is no directory")
	}
	onlyEntry(t, dir, "taken")
}

// An error of fill is returned and leaves the old file.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	if err := durable.Replace(path, 0o600, func(f *os.File) error { _, err := f.WriteString("old"); return err }); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no more rows")
	for _, fill := range []func(*os.File) error{
		func(f *os.File) error { f.WriteString("ne"); return broken },
		func(f *os.File) error { f.WriteString("ne"); f.Close(); _, err := f.WriteString("w"); return err },
		func(f *os.File) error { f.WriteString("ne"); return f.Close() }, // so that its own calls fail
	} {
		err := durable.Replace(path, 0o600, fill)
		var named *fs.PathError
		if !errors.Is(err, broken) && (!errors.As(err, &named) || named.Path != path) {
			t.Errorf("%v: want it of %s", err, path)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
			t.Errorf("%q, %v: want the old content", got, err)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	onlyEntry(t, dir, "a.json")
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".a.json.tmp123", ".metrics.jsonl.tmp9", ".kept.tmpl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.Sweep(dir); err != nil {
		t.Error(err)
	}
	onlyEntry(t, dir, ".kept.tmpl") // somebody else's
	if err := durable.Sweep(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is not there was swept")
	}
}

func onlyEntry(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("%s has %v (%v), want %s alone", dir, entries, err, name)
	}
}
