package repotest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"trireme/internal/conf"
	"trireme/internal/foreign"
	"trireme/train"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestShippedConfigurationsLoad loads every YAML file of examples/ and every YAML block of the
// documentation as `trireme train --config` does.
func TestShippedConfigurationsLoad(t *testing.T) {
	root := os.DirFS(repository(t))
	shipped := map[string]string{}
	err := fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name := path.Base(p); p != "." && (strings.HasPrefix(name, ".") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		isExample := strings.HasPrefix(p, "examples/") && (path.Ext(p) == ".yaml" || path.Ext(p) == ".yml")
		if !isExample && path.Ext(p) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		if isExample {
			shipped[p] = string(text)
			return nil
		}
		for i, block := range yamlBlock.FindAllSubmatch(text, -1) {
			shipped[fmt.Sprintf("%s (block %d)", p, i+1)] = string(block[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(shipped) == 0 {
		t.Fatal("no configuration found, not even in README.md: the test reads the wrong directory")
	}
	for name, text := range shipped {
		file, err := foreign.Read(name, text, foreign.Options{})
		if err == nil {
			err = loads(file.Source)
		}
		if err != nil {
			t.Errorf("a reader who copies this gets:\n%v", err)
		}
	}
}

// loads returns the error of a file, which may leave data and model to the command line.
func loads(file conf.Source) (err error) {
	for _, given := range []string{"{}", "data: {path: given}", "{data: {path: given}, model: {path: given}}"} {
		_, err = conf.Load(train.Default(), conf.Text("command line", given), file)
		if err == nil || !strings.Contains(err.Error(), "one of path, config and inline must be set") && !strings.Contains(err.Error(), "data.path: not set") {
			break
		}
	}
	return err
}

// TestMakefileFiles checks that every file in a target of the Makefile exists.
func TestMakefileFiles(t *testing.T) {
	root := os.DirFS(repository(t))
	text, err := fs.ReadFile(root, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bexamples/[^\s]+`).FindAllString(string(text), -1)
	if len(named) < 5 {
		t.Errorf("the Makefile names %d files of examples", len(named))
	}
	for _, name := range named {
		if _, err := fs.Stat(root, strings.TrimRight(name, ".")); err != nil {
			t.Error(err)
		}
	}
}
