package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// module is a module that is linked into a build. The standard library is one, named std.
type module struct {
	Path, Version, Dir string

	sum      string // h1 hash of go.sum; "" for std
	licenses []license
}

type license struct {
	name string
	text []byte
	ids  []string // SPDX identifiers found in text
}

var (
	// licenseName matches the files that are copied into the archive.
	licenseName = regexp.MustCompile(`(?i)^((?:un)?licen[cs]e|copying|notice|patents)([-.].*)?$`)
	// notice matches those that accompany a license and have no SPDX identifier.
	notice = regexp.MustCompile(`(?i)^(notice|patents)`)
)

// linked lists the modules in a build and reads their licenses. A module without a license that
// licensecheck recognizes is an error.
func linked(root string, b *build) ([]module, error) {
	c := exec.Command("go", "list", "-m", "-json=Path,Version,Dir", "all")
	c.Dir, c.Stderr, c.Env = root, os.Stderr, append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m module
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list -m: %w", err)
		}
		dirs[m.Path+"@"+m.Version] = m.Dir
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	modules := []module{{Path: "std", Version: b.info.GoVersion, Dir: strings.TrimSpace(string(goroot))}}
	for _, d := range b.info.Deps {
		modules = append(modules, module{Path: d.Path, Version: d.Version, Dir: dirs[d.Path+"@"+d.Version], sum: d.Sum})
	}
	for i := range modules {
		if err := modules[i].readLicenses(); err != nil {
			return nil, err
		}
	}
	return modules, nil
}

func (m *module) readLicenses() error {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return fmt.Errorf("module %s %s: %w", m.Path, m.Version, err)
	}
	known := false
	for _, e := range entries {
		if e.IsDir() || !licenseName.MatchString(e.Name()) {
			continue
		}
		l := license{name: e.Name()}
		if l.text, err = os.ReadFile(filepath.Join(m.Dir, e.Name())); err != nil {
			return err
		}
		if notice.MatchString(e.Name()) {
			m.licenses = append(m.licenses, l)
			continue
		}
		for _, found := range licensecheck.Scan(l.text).Match {
			if !slices.Contains(l.ids, found.ID) {
				l.ids = append(l.ids, found.ID)
			}
		}
		known = known || len(l.ids) > 0
		m.licenses = append(m.licenses, l)
	}
	if !known {
		return fmt.Errorf("module %s %s: no license that is recognized in %s", m.Path, m.Version, m.Dir)
	}
	return nil
}
