package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"trireme/fault"
	"trireme/internal/filekind"
	"trireme/tensor"
)

// Family makes models of one kind from config.json.
type Family struct {
	Name          string   // the folder
	Architectures []string // as config.json's architectures names them
	ModelTypes    []string // as model_type names them
	Bases         []string // further architectures, whose files serve: networks without a head, or with another
	// Modules are the classes of transformers' network that hold parameters, the layer's first, with
	// * for the stem of the architecture's name: *DecoderLayer is Qwen2DecoderLayer of a
	// Qwen2ForCausalLM.
	Modules []string
	// New makes a model for sequences of at most positions rows on a backend. Its parameters
	// have no memory yet; 0 is as many as the model allows. Errors name the key of config.json.
	New func(b tensor.Backend, config []byte, positions int) (Model, error)
	// Aliases are other names that files give a parameter, the likeliest first; nil for none.
	Aliases func(parameter string) []string
	// IgnoreMissing says that a parameter which the files lack may be drawn at random: the head of a
	// task that the files were not made for. nil: none may.
	IgnoreMissing func(parameter string) bool
	// IgnoreUnexpected says that a tensor of the files may be left unread: a head of another task, a table
	// that can be computed. nil: none may.
	IgnoreUnexpected func(name string) bool
}

// Registry is the families that a program knows.
type Registry []Family

// maxConfig bounds config.json; real ones have a few KiB.
const maxConfig = 4 << 20

// Config is a config.json as it stands in a file.
type Config struct {
	Path   string
	JSON   []byte
	Family Family
	// FilesVocab is the size of the vocabulary in the model's files, where JSON has another; else 0.
	FilesVocab int
}

// ReadConfig reads config.json and finds its family.
func (r Registry) ReadConfig(path string) (*Config, error) {
	data, err := ReadFile(path)
	if dir := filepath.Dir(path); errors.Is(err, syscall.ENOTDIR) {
		return nil, fault.Try(fmt.Errorf("model: %s is a file, and a model is a directory with config.json and model.safetensors", dir), "%s, or %s for random weights", filepath.Dir(dir), fault.Set("model.config", dir))
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Try(fmt.Errorf("model: %s does not exist: a model is a directory with config.json and model.safetensors", path), "a directory with both, or OWNER/NAME of the hub")
	} else if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return r.ParseConfig(path, data)
}

// ReadFile reads a small file that belongs to a model: a regular one, so that nothing is waited
// for, of at most 4 MiB and not known for something else, without a byte order mark.
func ReadFile(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case st.IsDir() && filepath.Base(path) != "config.json":
		return nil, fault.Try(fmt.Errorf("%s is a directory, not a config.json", path), "model.path %s for its weights, or model.config %s for random ones", path, filepath.Join(path, "config.json"))
	case !st.Mode().IsRegular():
		return nil, fault.Try(fmt.Errorf("%s is not a file", path), "the directory of a model")
	case st.Size() > maxConfig:
		return nil, fault.Try(fmt.Errorf("%s has %d bytes: that is no %s", path, st.Size(), filepath.Base(path)), "the directory of a model")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if k, ok := filekind.Detect(path, data[:min(len(data), filekind.HeadSize)]); ok {
		return nil, fault.Try(fmt.Errorf("%s is %s", path, k.Name), "%s", k.Try)
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil // some editors begin files with a byte order mark
}

// ParseConfig is ReadConfig for bytes; path is for messages.
func (r Registry) ParseConfig(path string, data []byte) (*Config, error) {
	var head struct {
		Architectures []string `json:"architectures"`
		ModelType     string   `json:"model_type"`
	}
	if err := Decode(data, &head); err != nil {
		return nil, fmt.Errorf("model: %s: %w", path, err)
	}
	for _, f := range r {
		for _, a := range head.Architectures {
			if slices.Contains(f.Architectures, a) || slices.Contains(f.Bases, a) {
				return &Config{Path: path, JSON: data, Family: f}, nil
			}
		}
	}
	if len(head.Architectures) == 0 {
		for _, f := range r {
			if slices.Contains(f.ModelTypes, head.ModelType) {
				return &Config{Path: path, JSON: data, Family: f}, nil
			}
		}
	}
	what := strings.Join(head.Architectures, ", ")
	if what == "" {
		what = "model_type " + head.ModelType
	}
	if what == "model_type " {
		return nil, fault.Try(fmt.Errorf("model: %s names neither architectures nor model_type", path), `"architectures": ["%s"] there, or another of %s`, r.Architectures()[0], strings.Join(r.Architectures()[1:], ", "))
	}
	return nil, fault.Try(fmt.Errorf("model: %s: architecture %s is not known. known: %s", path, what, strings.Join(r.Architectures(), ", ")), "a model of one of these")
}

// With is the configuration with other values of some keys of config.json; nil takes a key away.
func (c *Config) With(changes map[string]any) (*Config, error) {
	var keys map[string]json.RawMessage
	if err := Decode(c.JSON, &keys); err != nil {
		return nil, fmt.Errorf("model: %s: %w", c.Path, err)
	}
	for key, v := range changes {
		if v == nil {
			delete(keys, key)
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("model: %s: %s: %w", c.Path, key, err)
		}
		keys[key] = b
	}
	b, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", c.Path, err)
	}
	changed := *c
	changed.JSON = b
	return &changed, nil
}

// Modules are the classes of transformers' network, the layer's first; none where the family has
// none there.
func (c *Config) Modules() []string {
	var head struct {
		Architectures []string `json:"architectures"`
	}
	if err := Decode(c.JSON, &head); err != nil || len(head.Architectures) == 0 {
		head.Architectures = c.Family.Architectures[:1]
	}
	var names []string
	for _, name := range c.Family.Modules {
		names = append(names, strings.ReplaceAll(name, "*", stemOf(head.Architectures[0])))
	}
	return names
}

// Architectures lists the architectures.
func (r Registry) Architectures() []string {
	var names []string
	for _, f := range r {
		names = append(names, f.Architectures...)
	}
	return names
}

// Make makes the model, with the file's path before any error.
func (c *Config) Make(b tensor.Backend, positions int) (Model, error) {
	m, err := c.Family.New(b, c.JSON, positions)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", c.Path, err)
	}
	return m, nil
}

// Decode reads JSON into v; a value of the wrong type is an error that names its key and line.
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var mistyped *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &mistyped):
		key := mistyped.Field
		if key == "" {
			key = "it"
		}
		return atLine(data, mistyped.Offset, fault.At(key, "is %s: it must be %s", found(mistyped.Value), wanted(mistyped.Type)))
	case errors.As(err, &syntax):
		return fault.Try(atLine(data, syntax.Offset, fmt.Errorf("not JSON: %w", err)), "fetch the file again, if it is cut short")
	}
	return err
}

// found calls what stands in a JSON as encoding/json names it.
func found(value string) string {
	switch number, ok := strings.CutPrefix(value, "number "); {
	case ok:
		return number
	case value == "bool":
		return "true or false"
	case value == "array":
		return "a list"
	case value == "object":
		return "an object"
	}
	return "a " + value
}

// wanted says what a JSON is to have for a value of a type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}

// atLine is err with its line, where data has several.
func atLine(data []byte, offset int64, err error) error {
	if bytes.IndexByte(data, '\n') < 0 {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n")), err)
}
