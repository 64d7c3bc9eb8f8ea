package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"trireme/fault"
	"trireme/internal/filekind"
)

const (
	fileJSON          = "tokenizer.json"
	fileConfig        = "tokenizer_config.json"
	fileSpecialTokens = "special_tokens_map.json"
	fileAddedTokens   = "added_tokens.json"
	fileChatTemplate  = "chat_template.jinja"
	fileModel         = "tokenizer.model"
	fileVocab         = "vocab.txt"
)

// files are the names that Load reads in a directory.
var files = []string{
	fileJSON, fileConfig, fileSpecialTokens, fileAddedTokens, fileChatTemplate,
	fileModel, "vocab.json", "merges.txt", "encoder.json", "vocab.bpe", fileVocab,
}

// Files returns the names of all files that may belong to a tokenizer. Copying those present copies
// the tokenizer.
func Files() []string { return slices.Clone(files) }

// mainFiles are the alternatives of Load, in order of preference.
var mainFiles = []string{fileJSON, fileModel, "vocab.json", "encoder.json", fileVocab}

// Exists reports whether dir holds a tokenizer that Load can read.
func Exists(dir string) bool {
	for _, name := range mainFiles {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && !st.IsDir() {
			return true
		}
	}
	return false
}

// maxFile limits file sizes; the largest tokenizers have about 40 MB.
const maxFile = 1 << 30

// wholeFile reads a regular file, and rejects known other formats. Anything but a regular file is an
// error, since reading it may block.
func wholeFile(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fault.Try(fmt.Errorf("%s is not a file", path), "another tokenizer")
	case st.Size() > maxFile:
		return nil, fault.Try(fmt.Errorf("%s has %d bytes, too many for a tokenizer", path, st.Size()), "another")
	}
	blob, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	isJSON := strings.HasSuffix(path, ".json")
	if k, ok := filekind.Detect(path, blob[:min(len(blob), filekind.HeadSize)]); ok && (k.Sure || isJSON) {
		return nil, fault.Try(fmt.Errorf("%s is %s", path, k.Name), "%s", k.Try)
	}
	if isJSON {
		blob = bytes.TrimPrefix(blob, []byte("\ufeff")) // some editors write a byte order mark
	}
	return blob, nil
}

// readConfig reads special_tokens_map.json and tokenizer_config.json of a directory, if present;
// the latter has precedence. added_tokens.json is stored under its file name. A chat template file
// overrides both.
func readConfig(dir string) (map[string]any, error) {
	config := map[string]any{}
	for _, name := range []string{fileSpecialTokens, fileConfig} {
		file := filepath.Join(dir, name)
		blob, err := wholeFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		if err := decode(blob, &config); err != nil {
			return nil, damaged(file, err)
		}
		if config == nil { // the file is null
			config = map[string]any{}
		}
	}
	for name, take := range map[string]func(blob []byte) error{
		fileChatTemplate: func(blob []byte) error {
			config["chat_template"] = string(blob)
			return nil
		},
		fileAddedTokens: func(blob []byte) error {
			var added map[string]any
			err := decode(blob, &added)
			config[fileAddedTokens] = added
			return err
		},
	} {
		file := filepath.Join(dir, name)
		blob, err := wholeFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		if err := take(blob); err != nil {
			return nil, damaged(file, err)
		}
	}
	return config, nil
}
