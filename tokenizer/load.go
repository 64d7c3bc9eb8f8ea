package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"trireme/fault"
)

// Load reads a tokenizer from a file, or from the first of these in a directory: tokenizer.json,
// tokenizer.model, vocab.json with merges.txt (or encoder.json with vocab.bpe, their older names),
// vocab.txt. It also reads tokenizer_config.json, special_tokens_map.json, added_tokens.json and
// chat_template.jinja in the same directory.
func Load(path string) (*Tokenizer, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if st.IsDir() {
		for _, name := range mainFiles {
			file := filepath.Join(path, name)
			if st, err := os.Stat(file); err == nil && !st.IsDir() {
				return loadFile(file)
			}
		}
		return nil, fault.Try(fmt.Errorf("tokenizer: %s has none of %s", path, strings.Join(mainFiles, ", ")), "%s with one of them", fault.Set("data.tokenizer", "DIR"))
	}
	return loadFile(path)
}

func loadFile(file string) (*Tokenizer, error) {
	dir, name := filepath.Split(file)
	blob, err := wholeFile(file)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	ext := filepath.Ext(name)
	if ext != ".model" && ext != ".txt" && !bytes.HasPrefix(bytes.TrimLeft(blob, " \t\r\n"), []byte("{")) {
		// Checked before the other files are read, for a clearer error.
		return nil, damaged(file, errors.New("not a tokenizer: expected a JSON object (a sentencepiece model is named .model, a token list .txt)"))
	}
	config, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	var t *Tokenizer
	switch {
	case name == "vocab.json" || name == "encoder.json":
		return loadVocab(file, blob, config)
	case ext == ".model":
		t, err = fromSentencePiece(blob, config)
	case ext == ".txt":
		t, err = fromVocabTxt(blob, config)
	default:
		t, err = parse(blob, config)
	}
	if err != nil {
		return nil, damaged(file, err)
	}
	t.path = file
	return t, nil
}

// damaged is the error for an invalid or unsupported file.
func damaged(file string, err error) error {
	return fault.Try(fmt.Errorf("tokenizer: %s: %w", file, err), "download it again if it is damaged, or use another tokenizer")
}

// loadVocab reads the merges that belong to a vocabulary.
func loadVocab(file string, blob []byte, config map[string]any) (*Tokenizer, error) {
	var vocab map[string]int32
	if err := decode(blob, &vocab); err != nil {
		return nil, damaged(file, err)
	}
	dir, name := filepath.Split(file)
	merges := filepath.Join(dir, map[string]string{"vocab.json": "merges.txt", "encoder.json": "vocab.bpe"}[name])
	blob, err := wholeFile(merges)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Try(fmt.Errorf("tokenizer: %s has no %s beside it: %w", file, filepath.Base(merges), fs.ErrNotExist), "copy it from the directory of the vocabulary")
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := fromVocab(vocab, string(blob), config)
	if err != nil {
		return nil, damaged(merges, err)
	}
	return t, nil
}

const byteLevelJSON = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`

// fromVocab builds the tokenizer of the configured class: GPT-2's pattern, or Qwen2's with NFC.
func fromVocab(vocab map[string]int32, merges string, config map[string]any) (*Tokenizer, error) {
	t := &Tokenizer{parts: parts{PreTokenizer: json.RawMessage(byteLevelJSON), Decoder: json.RawMessage(byteLevelJSON), Config: config}}
	class, _ := config["tokenizer_class"].(string)
	switch class = strings.TrimSuffix(class, "Fast"); class {
	case "RobertaTokenizer", "BartTokenizer":
		config = withNames(config, robertaNames)
		t.parts.Config = config
		fallthrough
	case "", "GPT2Tokenizer", "PreTrainedTokenizer":
		if prefix, _ := config["add_prefix_space"].(bool); prefix {
			t.parts.PreTokenizer = json.RawMessage(strings.Replace(byteLevelJSON, "false", "true", 1))
		}
	case "Qwen2Tokenizer":
		t.parts.Normalizer = json.RawMessage(`{"type":"NFC"}`)
		t.parts.PreTokenizer = splitJSON(patternQwen2)
	default:
		return nil, fmt.Errorf("tokenizer_class %q of tokenizer_config.json is not supported without a tokenizer.json", class)
	}
	f := &bpeJSON{Vocab: vocab}
	var err error
	if f.Merges, err = readMerges(merges); err != nil {
		return nil, err
	}
	var ends []string
	if _, said := config["eos_token"]; !said {
		ends = []string{endNames[0]} // missing in GPT-2's own files
	}
	if t.added, err = addedTokens(config, vocab, ends); err != nil {
		return nil, err
	}
	if class == "RobertaTokenizer" || class == "BartTokenizer" {
		cls, sep, err := bertEnds(config, vocab)
		if err != nil {
			return nil, err
		}
		t.parts.PostProcessor = plainSection(map[string]any{"type": "RobertaProcessing", "cls": cls, "sep": sep})
	}
	if err := t.setBPE(f); err != nil {
		return nil, err
	}
	if err := t.readParts(); err != nil {
		return nil, err
	}
	t.finish()
	return t, nil
}

// readMerges parses merges.txt: two tokens per line, after an optional version line.
func readMerges(text string) (merges []merge, err error) {
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || n == 0 && strings.HasPrefix(line, "#version") {
			continue
		}
		a, b, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(b, " ") {
			return nil, fmt.Errorf("line %d is not two tokens: %.40q", n+1, line)
		}
		merges = append(merges, merge{a, b})
	}
	return merges, nil
}

// addedTokens returns the added tokens of a tokenizer without tokenizer.json: those listed in the
// configuration, its special tokens, and names, if in the vocabulary.
func addedTokens(config map[string]any, vocab map[string]int32, names []string) (added []AddedToken, err error) {
	special := map[string]AddedToken{} // by spelling
	for _, key := range specialKeys {
		a := addedToken(config[key])
		special[a.Content] = a
	}
	if list, ok := config["additional_special_tokens"].([]any); ok {
		for _, one := range list {
			a := addedToken(one)
			special[a.Content] = a
		}
	}
	for _, name := range names {
		special[name] = addedToken(name)
	}
	seen := map[string]bool{"": true}
	take := func(a AddedToken) {
		if !seen[a.Content] {
			added = append(added, a)
			seen[a.Content] = true
		}
	}
	byID, _ := config["added_tokens_decoder"].(map[string]any)
	for key, v := range byID {
		id, err := strconv.ParseInt(key, 10, 32)
		fields, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, fmt.Errorf("added_tokens_decoder of %s: bad entry %.40q", fileConfig, key)
		}
		a := addedToken(v)
		a.ID = int32(id)
		a.Special, _ = fields["special"].(bool)
		take(a)
	}
	further, _ := config[fileAddedTokens].(map[string]any)
	for token, v := range further {
		id, ok := v.(float64)
		if !ok || id != float64(int32(id)) {
			return nil, fmt.Errorf("%s: the id of %.40q is not an integer", fileAddedTokens, token)
		}
		a, ok := special[token]
		if !ok {
			a = AddedToken{Content: token, Normalized: true}
		}
		a.ID = int32(id)
		take(a)
	}
	for name, a := range special {
		if id, ok := vocab[name]; ok {
			a.ID = id
			take(a)
		}
	}
	return added, nil
}

// addedToken decodes a special token: a string, or an object with content.
func addedToken(v any) AddedToken {
	a := AddedToken{Content: tokenOf(v), Special: true}
	if fields, ok := v.(map[string]any); ok {
		a.SingleWord, _ = fields["single_word"].(bool)
		a.LStrip, _ = fields["lstrip"].(bool)
		a.RStrip, _ = fields["rstrip"].(bool)
		a.Normalized, _ = fields["normalized"].(bool)
	}
	return a
}

// bertEnds returns BERT's special tokens in a post-processor's form: ["[CLS]", 101].
func bertEnds(config map[string]any, vocab map[string]int32) (cls, sep []any, err error) {
	find := func(key string) []any {
		name := configToken(config, key)
		id, ok := vocab[name]
		if !ok && err == nil {
			err = fmt.Errorf("the vocabulary has no %s %.40q", key, name)
		}
		return []any{name, id}
	}
	cls, sep = find("cls_token"), find("sep_token")
	return cls, sep, err
}

func splitJSON(pattern string) json.RawMessage {
	return plainSection(map[string]any{"type": "Sequence", "pretokenizers": []any{
		map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false},
		map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
	}})
}

// plainSection marshals a section of tokenizer.json.
func plainSection(v map[string]any) json.RawMessage {
	b, err := plainJSON(v, "")
	if err != nil {
		panic(err) // strings, numbers and lists cannot fail
	}
	return b
}
