package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"trireme/internal/cli"
)

// build is the program for one platform.
type build struct {
	goos, goarch string
	binary       []byte
	info         *debug.BuildInfo
	version      string    // semantic version, with a leading v
	time         time.Time // of the commit; 1980-01-01 outside a Git repository
}

// compile builds cmd/trireme for a platform, given as GOOS/GOARCH, with build tags.
func compile(root, platform, tags string) (*build, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("platform %q is not GOOS/GOARCH", platform)
	}
	dir, err := os.MkdirTemp("", "trireme-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "trireme")
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=auto", "-ldflags=-s -w -buildid=", "-tags="+tags, "-o", path, "./cmd/trireme")
	c.Dir, c.Stderr = root, os.Stderr
	// The caller's settings of the compiler do not reach the files.
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "GODEBUG=", "GOFIPS140=off")
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("%s: go build: %w", platform, err)
	}
	b := &build{goos: goos, goarch: goarch, time: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	if b.binary, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	if b.info, err = buildinfo.Read(bytes.NewReader(b.binary)); err != nil {
		return nil, err
	}
	b.version = cli.Version(b.info)
	if release, _, _ := strings.Cut(b.version, "-"); release != cli.Next {
		return nil, fmt.Errorf("the commit's tag is %s, cli.Next is %s", b.version, cli.Next)
	}
	for _, s := range b.info.Settings {
		if s.Key == "vcs.time" {
			if b.time, err = time.Parse(time.RFC3339, s.Value); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}
