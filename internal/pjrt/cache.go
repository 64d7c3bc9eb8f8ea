package pjrt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"trireme/internal/cpuid"
	"trireme/internal/durable"
)

const (
	// cacheLimit is the size of a cache in bytes.
	cacheLimit = 4 << 30
	// cacheExt ends the names of a cache's files.
	cacheExt = ".pjrt"
)

// compilerVars are the environment variables that change what compilers do.
var compilerVars = []string{"XLA_FLAGS", "LIBTPU_INIT_ARGS"}

// CacheUse says what CompileCached did with its directory.
type CacheUse struct {
	Hit  bool   // the executable comes from the cache
	File string // the executable's file
	Err  error  // the cache could not be read or written; the executable is usable
}

// CompileCached is Compile with a cache of executables on disk. An executable is found by the text, the
// options, the plug-in's build, the platform and the devices' kind. A damaged file is replaced. The
// cache is limited to 4 GiB: the files that were not used for the longest time are deleted. Several
// processes may use a directory. Dropped of an executable from the cache is empty.
func (c *Client) CompileCached(dir, text string, o CompileOptions) (*Executable, CacheUse, error) {
	key, err := c.cacheKey(text, o)
	if err != nil {
		return nil, CacheUse{}, err
	}
	use := CacheUse{File: filepath.Join(dir, key+cacheExt)}
	data, err := os.ReadFile(use.File)
	if err == nil {
		if e, err := c.deserialize(data, []byte(text), o); err == nil {
			use.Hit = true
			now := time.Now()
			use.Err = os.Chtimes(use.File, now, now)
			return e, use, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		use.Err = err
	}
	e, err := c.Compile(text, o)
	if err != nil {
		return nil, use, err
	}
	if err := keep(e, use.File); err != nil {
		use.Err = err
	}
	if err := evict(dir, cacheLimit); err != nil && use.Err == nil {
		use.Err = err
	}
	return e, use, nil
}

// cacheKey returns the name of an executable's file.
func (c *Client) cacheKey(text string, o CompileOptions) (string, error) {
	options, err := o.encode(o.Optional)
	if err != nil {
		return "", err
	}
	id, err := c.plugin.id()
	if err != nil {
		return "", fmt.Errorf("plug-in %s: %w", c.plugin.path, err)
	}
	h := sha256.New()
	for _, part := range []string{
		string(id), c.platform, c.version, c.devices[0].kind, c.processor(), environment(), string(options), text,
	} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// processor identifies the processor where programs run on it: they use its vector instructions.
func (c *Client) processor() string {
	if c.platform != "cpu" {
		return runtime.GOARCH
	}
	return cpuid.Name()
}

func environment() string {
	var s string
	for _, name := range compilerVars {
		s += name + "=" + os.Getenv(name) + "\n"
	}
	return s
}

// keep writes an executable to a file.
func keep(e *Executable, file string) error {
	data, err := e.Serialize()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(file, data)
}

// evict deletes the files of a cache that were used first, until the rest has up to limit bytes. Other
// processes may delete files meanwhile.
func evict(dir string, limit int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var total int64
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || filepath.Ext(info.Name()) != cacheExt {
			continue
		}
		files = append(files, info)
		total += info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range files {
		if total <= limit {
			break
		}
		if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= info.Size()
	}
	return nil
}
