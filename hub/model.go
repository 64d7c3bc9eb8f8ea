package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"trireme/internal/objectstore"
)

const (
	configFile  = "config.json"
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

var tokenizerFiles = []string{
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "chat_template.json",
	"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "merges.txt", "vocab.txt",
}

// vocabularies are those that define a tokenizer.
var vocabularies = []string{"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.json", "vocab.txt"}

// Model downloads a model's configuration, weights and tokenizer into the cache: config.json,
// model.safetensors or its index and shards, generation_config.json and the tokenizer files that
// exist. Other weight formats are ignored. The name may be the URL of a directory of objects.
func (c Client) Model(ctx context.Context, name string) (*Snapshot, error) {
	return c.model(ctx, name, pickModel)
}

// Config downloads only the configuration and tokenizer of a model, for random weights.
func (c Client) Config(ctx context.Context, name string) (*Snapshot, error) {
	return c.model(ctx, name, pickConfig)
}

// Tokenizer downloads only a model's tokenizer.
func (c Client) Tokenizer(ctx context.Context, name string) (*Snapshot, error) {
	return c.model(ctx, name, pickTokenizer)
}

func (c Client) model(ctx context.Context, name string, choose func(repo) pick) (*Snapshot, error) {
	if objectstore.IsURL(name) {
		return c.objects(ctx, name, modelObjects, choose)
	}
	n, ok := ParseModel(name)
	if !ok {
		return nil, &Error{Kind: ErrNotFound, Text: readable(name) + " is not a name of a model", Try: "OWNER/NAME or OWNER/NAME@REVISION"}
	}
	r := repo{kind: "model", id: n.ID}
	return c.get(ctx, r, n, choose(r))
}

func pickConfig(r repo) pick {
	return func(l *listing, _ func(string) ([]byte, error)) (wanted, error) {
		if _, ok := l.find(configFile); !ok {
			return wanted{}, missing(r, l, configFile, "not a transformers model", "adapter_config.json", "model_index.json", "params.json")
		}
		w := tokenizerOf(l)
		w.add(l, configFile, "generation_config.json")
		w.spare = append(w.spare, "generation_config.json")
		return w.sorted(), nil
	}
}

func pickModel(r repo) pick {
	return func(l *listing, read func(string) ([]byte, error)) (wanted, error) {
		w, err := pickConfig(r)(l, read)
		if err != nil {
			return wanted{}, err
		}
		if _, ok := l.find(weightsFile); ok {
			w.add(l, weightsFile)
			return w.sorted(), nil
		}
		if _, ok := l.find(indexFile); !ok {
			return wanted{}, missing(r, l, weightsFile, "only safetensors weights are supported", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".safetensors")
		}
		b, err := read(indexFile)
		if err != nil {
			return wanted{}, err
		}
		shards, err := parseIndex(b)
		if err != nil {
			return wanted{}, &Error{Kind: ErrCorrupt, Text: fmt.Sprintf("%s of %s: %v", indexFile, r, err), Err: err}
		}
		// Shards missing in the listing are reported when they are fetched.
		w.files = append(append(w.files, indexFile), shards...)
		return w.sorted(), nil
	}
}

func pickTokenizer(r repo) pick {
	return func(l *listing, _ func(string) ([]byte, error)) (wanted, error) {
		w := tokenizerOf(l)
		if !slices.ContainsFunc(vocabularies, func(v string) bool { return slices.Contains(w.files, v) }) {
			return wanted{}, missing(r, l, "tokenizer.json", "it has no tokenizer files")
		}
		w.add(l, configFile) // some tokenizers depend on model_type
		return w.sorted(), nil
	}
}

// tokenizerOf selects the tokenizer files of a listing. tokenizer.json needs no other vocabulary.
func tokenizerOf(l *listing) (w wanted) {
	w.add(l, tokenizerFiles...)
	_, whole := l.find("tokenizer.json")
	for _, name := range w.files {
		vocabulary := slices.Contains(vocabularies, name) || name == "merges.txt"
		if name != "tokenizer.json" && name != "tokenizer_config.json" && (whole || !vocabulary) {
			w.spare = append(w.spare, name)
		}
	}
	return w
}

// add selects the names that the listing has.
func (w *wanted) add(l *listing, names ...string) {
	for _, name := range names {
		if _, ok := l.find(name); ok {
			w.files = append(w.files, name)
		} else {
			w.hasNot = append(w.hasNot, name)
		}
	}
}

func (w wanted) sorted() wanted {
	slices.Sort(w.files)
	w.files = slices.Compact(w.files)
	return w
}

// missing is the error for a repository without a required file; endings are of alternatives worth
// naming.
func missing(r repo, l *listing, name, why string, endings ...string) error {
	e := &Error{Kind: ErrNotFound, Text: fmt.Sprintf("%s has no %s: %s", r.at("commit "+l.commit), name, why)}
	var has []string
	for _, f := range l.files {
		if slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(f.name, end) }) && len(has) < 4 {
			has = append(has, f.name)
		}
	}
	if len(has) > 0 {
		e.Text += "; it has " + strings.Join(has, ", ")
		if name == weightsFile {
			e.Try = "a repository or revision (NAME@REVISION) of it with safetensors"
			if r.stored != "" {
				e.Try = "a directory with safetensors"
			}
		}
	}
	return e
}

const maxShards = 10_000

// parseIndex returns the files of a sharded model's index, sorted.
func parseIndex(b []byte) ([]string, error) {
	var index struct {
		Weights map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil {
		return nil, jsonError(err)
	}
	var shards []string
	seen := map[string]bool{}
	for _, name := range index.Weights {
		if seen[name] {
			continue
		}
		if !validFile(name) {
			return nil, fmt.Errorf("it names %q, not a valid path", readable(name))
		}
		seen[name] = true
		shards = append(shards, name)
	}
	if len(shards) == 0 || len(shards) > maxShards {
		return nil, fmt.Errorf("it names %d files", len(shards))
	}
	slices.Sort(shards)
	return shards, nil
}
