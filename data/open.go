package data

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"
)

// Config is the node `data` of the configuration.
type Config struct {
	// Path is a file or a glob of files.
	Path string `yaml:"path"`
	// EvalPath is held-out data, read as Path is; empty is none.
	EvalPath string `yaml:"eval_path"`
	// Format: jsonl, rows that hold input_ids.
	Format string `yaml:"format"`
	// SequenceLength is the positions of a row; 0 is the longest row's.
	SequenceLength int `yaml:"sequence_length"`
	// Shuffle puts the rows in another order each epoch, as torch's DistributedSampler does.
	// Default true.
	Shuffle bool `yaml:"shuffle"`
	// DropLast leaves out rows that do not make a whole global batch. Default false: rows
	// from the front of the epoch fill it.
	DropLast bool `yaml:"drop_last"`
}

// DefaultConfig is the configuration of a file that says nothing.
func DefaultConfig() Config { return Config{Format: "jsonl", Shuffle: true} }

// Validate checks what does not depend on the files.
func (c Config) Validate() error {
	switch {
	case c.Path == "":
		return errors.New("data: path names no file. try: --set data.path=train.jsonl")
	case c.Format != "jsonl":
		return fmt.Errorf("data: format %q is not known: jsonl is", c.Format)
	case c.SequenceLength < 0:
		return fmt.Errorf("data: sequence_length is %d: it must not be negative", c.SequenceLength)
	}
	return nil
}

// Open opens the rows at path (c.Path or c.EvalPath). Token ids must be below vocab.
func (c Config) Open(path string, vocab int) (Dataset, error) {
	files, err := filepath.Glob(path)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("data: %s: no such file", path)
	}
	sort.Strings(files)
	return OpenRows(files, RowsOptions{MaxLength: c.SequenceLength, Vocab: vocab})
}
