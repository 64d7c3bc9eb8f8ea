package pjrttest

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"trireme/internal/flock"
)

// wheel is a package of Python's index.
type wheel struct {
	name, version string
	keep          []string
	sums          map[string]string
}

// downloadTime limits an installation.
const downloadTime = 10 * time.Minute

// install returns the directory below cache with the files of a wheel. Test processes that run at the
// same time install it once; a process that ends early leaves nothing that looks complete.
func (w wheel) install(cache, sum string, download func(ctx context.Context, requirement, dir string) error) (string, error) {
	dir := filepath.Join(cache, w.name+"-"+w.version+"-"+sum[:12])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), downloadTime)
	defer cancel()
	unlock, err := flock.Lock(ctx, filepath.Join(cache, w.name+".lock"), 0o644, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = unlock() }()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // another process was first
	}
	temp, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := download(ctx, w.name+"=="+w.version, temp); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(temp, "*.whl"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("pip downloaded %d wheels of %s", len(files), w.name)
	}
	if err := verify(files[0], sum); err != nil {
		return "", err
	}
	out := filepath.Join(temp, "files")
	if err := unzip(files[0], out, w.keep); err != nil {
		return "", err
	}
	return dir, os.Rename(out, dir)
}

// download runs pip.
func download(ctx context.Context, requirement, dir string) error {
	var all error
	for _, command := range [][]string{{"pip"}, {"pip3"}, {"python3", "-m", "pip"}} {
		c := exec.CommandContext(ctx, command[0], append(command[1:], "download", "--quiet", "--disable-pip-version-check",
			"--no-deps", "--only-binary", ":all:", "--dest", dir, requirement)...)
		out, err := c.CombinedOutput()
		if err == nil {
			return nil
		}
		all = errors.Join(all, fmt.Errorf("%s: %w %s", command[0], err, out))
		if !errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	return all
}

// verify compares a file's SHA-256.
func verify(path, sum string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != sum {
		return fmt.Errorf("%s has SHA-256 %s, want %s", filepath.Base(path), got, sum)
	}
	return nil
}

// unzip extracts the named files.
func unzip(archive, dir string, names []string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, name := range names {
		if err := extract(&r.Reader, name, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(archive), err)
		}
	}
	return nil
}

func extract(r *zip.Reader, name, path string) error {
	in, err := r.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
