package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"trireme/data"
	"trireme/hub"
	"trireme/tokenizer"
)

type tokenizerTraining struct {
	train  bool
	vocab  int
	output string
	json   bool
}

func (o *tokenizerTraining) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.train, "train", false, "train a byte-level BPE on text: files, directories or globs")
	f.IntVar(&o.vocab, "vocab_size", 4096, "size of the vocabulary, including special tokens and the 256 bytes")
	f.StringVar(&o.output, "output", "", "`DIR` for tokenizer.json")
	f.BoolVar(&o.json, "json", false, "print the result of --train as one JSON object")
}

type tokenizerReport struct {
	Schema    string `json:"schema"`
	Output    string `json:"output"`
	VocabSize int    `json:"vocab_size"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
}

func (o *tokenizerTraining) run(c *cobra.Command, files []string) error {
	if o.output == "" {
		return usage("--output is missing", c.CommandPath()+" --train --output DIR text.txt")
	}
	if len(files) == 0 {
		return usage("no text files to train on", c.CommandPath()+" --train --output DIR text.txt")
	}
	if o.vocab < 257 {
		return usage(fmt.Sprintf("--vocab_size is %d: the 256 bytes and <|endoftext|> need 257", o.vocab), "--vocab_size 4096")
	}
	if file := filepath.Join(o.output, "tokenizer.json"); exists(file) {
		return usage(file+" exists, and models may have been trained with it", "another --output")
	}
	var named []string
	for _, path := range files {
		if !exists(path) && !strings.ContainsAny(path, "*?[") {
			return missingPath("", path, "text file or directory", hub.ParseDataset)
		}
		if st, err := os.Stat(path); err == nil && !st.IsDir() { // empty files are reported together
			named = append(named, path)
			continue
		}
		found, err := data.TextFiles(path)
		if err != nil {
			return &Exit{CodeUsage, err}
		}
		named = append(named, found...)
	}
	files = named
	r := tokenizerReport{Schema: "trireme.tokenize.train/1", Output: o.output, Files: len(files)}
	var failed error
	t, err := tokenizer.Train(c.Context(), func(yield func(string) bool) {
		for _, name := range files {
			text, err := readText(name)
			if err != nil {
				failed = err
				return
			}
			r.Bytes += int64(len(text))
			if !yield(text) {
				return
			}
		}
	}, tokenizer.TrainOptions{VocabSize: o.vocab})
	switch {
	case failed != nil:
		return &Exit{CodeUsage, failed}
	case err != nil:
		return err
	case r.Bytes == 0:
		return usage("no text to train on: "+strings.Join(files, ", ")+" is empty", c.CommandPath()+" --train --output DIR text.txt")
	}
	if err := t.Save(o.output); err != nil {
		return err
	}
	r.VocabSize = t.VocabSize()
	if o.json {
		return writeJSON(c.OutOrStdout(), r)
	}
	fmt.Fprintf(c.ErrOrStderr(), "trained a tokenizer of %s on %s in %s: %s\n", number(int64(r.VocabSize), "token"), number(r.Bytes, "byte"), number(int64(r.Files), "file"), r.Output)
	if r.VocabSize < o.vocab {
		fmt.Fprintf(c.ErrOrStderr(), "fewer tokens than --vocab_size %d: no further pair occurs twice\n", o.vocab)
	}
	return nil
}

// readText reads a text file, and refuses one with a NUL byte near its start.
func readText(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(text[:min(len(text), 8192)], 0) >= 0 {
		return "", &Problem{Text: name + " is binary, not text", Try: "text files, decompressed"}
	}
	return string(text), nil
}
