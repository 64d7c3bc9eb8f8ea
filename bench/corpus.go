package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"trireme/data"
)

// corpus is texts to tokenize.
type corpus struct {
	name  string
	texts []string
	bytes int
	file  string // the texts, a JSON string per line
}

const (
	textBytes   = 16 << 10 // maximum of a text of several lines
	corpusBytes = 8 << 20
)

// corpora reads the values of -texts, or else text that stands in this repository and in Go's.
func (h *harness) corpora(ctx context.Context) ([]*corpus, error) {
	type source struct {
		name  string
		paths []string
	}
	var sources []source
	for _, path := range h.texts {
		base := filepath.Base(path)
		sources = append(sources, source{strings.TrimSuffix(base, filepath.Ext(base)), []string{path}})
	}
	if sources == nil {
		out, err := output(command(ctx, "go", "env", "GOROOT", "GOMOD"))
		lines := strings.Fields(string(out))
		if err == nil && (len(lines) != 2 || lines[1] == os.DevNull) {
			err = errors.New("this is not a Go module")
		}
		if err != nil {
			return nil, fmt.Errorf("the default texts: %w. try: in the repository, or -texts FILE", err)
		}
		src, repository := filepath.Join(lines[0], "src"), filepath.Dir(lines[1])
		sources = []source{
			{"code", []string{filepath.Join(src, "**", "*.go")}},
			{"english", []string{filepath.Join(repository, "docs", "*.md"), filepath.Join(repository, "examples", "data", "shakespeare"), filepath.Join(src, "testdata", "Isaac.Newton-Opticks.txt")}},
		}
	}
	var all []*corpus
	for i, s := range sources {
		c, err := readCorpus(s.name, s.paths...)
		if err != nil {
			return nil, err
		}
		c.file = filepath.Join(h.dir, fmt.Sprintf("texts-%d.jsonl", i))
		if err := c.write(); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// readCorpus reads files, directories or globs. Files are cut at ends of lines, text that is not UTF-8 is left
// out, and of more than corpusBytes every second, third ... text is taken.
func readCorpus(name string, paths ...string) (*corpus, error) {
	var texts []string
	total := 0
	for _, path := range paths {
		files, err := data.TextFiles(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for len(b) > 0 {
				n := textEnd(b)
				if utf8.Valid(b[:n]) {
					texts = append(texts, string(b[:n]))
					total += n
				}
				b = b[n:]
			}
		}
	}
	c := &corpus{name: name}
	every := max(1, (total+corpusBytes-1)/corpusBytes)
	for i := 0; i < len(texts); i += every {
		c.texts = append(c.texts, texts[i])
		c.bytes += len(texts[i])
	}
	if c.bytes == 0 {
		return nil, fmt.Errorf("%s has no text. try: another -texts", strings.Join(paths, ", "))
	}
	return c, nil
}

// textEnd returns the length of the first text of b: lines of up to textBytes together, or a longer line.
func textEnd(b []byte) int {
	if len(b) <= textBytes {
		return len(b)
	}
	i := bytes.LastIndexByte(b[:textBytes], '\n')
	if i < 0 {
		i = bytes.IndexByte(b, '\n')
	}
	if i < 0 {
		return len(b)
	}
	return i + 1
}

func (c *corpus) write() error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, t := range c.texts {
		if err := e.Encode(t); err != nil {
			return err
		}
	}
	return os.WriteFile(c.file, b.Bytes(), 0o644)
}
