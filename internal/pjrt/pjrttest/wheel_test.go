package pjrttest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// archive returns a wheel and its SHA-256.
func archive(t *testing.T) (data []byte, sum string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"pkg/plugin.so", "pkg/other.txt"} {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256(b.Bytes())
	return b.Bytes(), hex.EncodeToString(h[:])
}

func TestInstall(t *testing.T) {
	data, sum := archive(t)
	w := wheel{name: "pkg", version: "1.2", keep: []string{"pkg/plugin.so"}}
	cache := filepath.Join(t.TempDir(), "cache")
	var downloads atomic.Int32
	fetch := func(_ context.Context, requirement, dir string) error {
		downloads.Add(1)
		if requirement != "pkg==1.2" {
			t.Error(requirement)
		}
		return os.WriteFile(filepath.Join(dir, "pkg-1.2.whl"), data, 0o644)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := w.install(cache, sum, fetch)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := os.ReadFile(filepath.Join(dir, "pkg", "plugin.so"))
			if err != nil || string(got) != "pkg/plugin.so" {
				t.Errorf("%q %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := downloads.Load(); n != 1 {
		t.Errorf("%d downloads", n)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 2 { // the lock and the files
		t.Error(entries, err)
	}
}

func TestInstallFails(t *testing.T) {
	data, sum := archive(t)
	for _, c := range []struct {
		name, sum, want string
		keep            string
		fetch           func(dir string) error
	}{
		{"other bytes", strings.Repeat("0", 64), "has SHA-256 " + sum, "pkg/plugin.so", nil},
		{"no such file", sum, "pkg/missing.so", "pkg/missing.so", nil},
		{"no pip", sum, "no pip", "pkg/plugin.so", func(string) error { return errors.New("no pip") }},
		{"no wheel", sum, "0 wheels", "pkg/plugin.so", func(string) error { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := t.TempDir()
			w := wheel{name: "pkg", version: "1.2", keep: []string{c.keep}}
			_, err := w.install(cache, c.sum, func(_ context.Context, _, dir string) error {
				if c.fetch != nil {
					return c.fetch(dir)
				}
				return os.WriteFile(filepath.Join(dir, "pkg-1.2.whl"), data, 0o644)
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
			entries, err := os.ReadDir(cache)
			if err != nil || len(entries) != 1 { // the lock
				t.Error(entries, err)
			}
		})
	}
}
