package plugin

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// loaderDirs lists the directories of the system's loader: of /etc/ld.so.conf, and its defaults.
func (s System) loaderDirs() []string {
	c := loaderConfig{root: s.Root}
	c.read(filepath.Join(s.Root, "etc/ld.so.conf"))
	machine := "x86_64-linux-gnu"
	if runtime.GOARCH == "arm64" {
		machine = "aarch64-linux-gnu"
	}
	return append(c.dirs, s.under("lib/"+machine, "usr/lib/"+machine, "lib64", "usr/lib64", "lib", "usr/lib")...)
}

// loaderConfig collects the directories of files in the format of ld.so.conf. It reads each file once.
type loaderConfig struct {
	root        string
	files, dirs []string
}

// maxLoaderDirs limits what files can add.
const maxLoaderDirs = 256

func (c *loaderConfig) read(file string) {
	if slices.Contains(c.files, file) || len(c.files) >= maxLoaderDirs {
		return
	}
	c.files = append(c.files, file)
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if pattern, ok := strings.CutPrefix(line, "include "); ok && !strings.Contains(pattern, "..") {
			base := filepath.Dir(file)
			if pattern = strings.TrimSpace(pattern); filepath.IsAbs(pattern) {
				base = c.root
			}
			included := glob(base, pattern)
			slices.Sort(included)
			for _, f := range included {
				c.read(f)
			}
		} else if filepath.IsAbs(line) && len(c.dirs) < maxLoaderDirs {
			c.dirs = append(c.dirs, filepath.Join(c.root, line))
		}
	}
}
