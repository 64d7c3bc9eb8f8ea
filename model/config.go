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

// Family constructs models of one kind from config.json.
type Family struct {
	Name          string   // of the folder
	Architectures []string // config.json's architectures
	ModelTypes    []string // config.json's model_type
	Bases         []string // other architectures whose files load: without a head, or with another
	// Modules are the module classes in transformers that hold parameters, the layer first, with *
	// for the architecture's prefix: *DecoderLayer is Qwen2DecoderLayer for Qwen2ForCausalLM.
	Modules []string
	// New returns a model for sequences of up to positions rows (0: the model's maximum). Its
	// parameters are not allocated. Errors name the key of config.json.
	New func(b tensor.Backend, config []byte, positions int) (Model, error)
	// Aliases returns other names of a parameter in files, most likely first; nil for none.
	Aliases func(parameter string) []string
	// IgnoreMissing reports whether a parameter missing from the files may be initialized at
	// random, such as the head of a new task. nil: none may.
	IgnoreMissing func(parameter string) bool
	// IgnoreUnexpected reports whether a tensor of the files may be ignored, such as the head of
	// another task or a computed table. nil: none may.
	IgnoreUnexpected func(name string) bool
}

// Registry is the families a program supports.
type Registry []Family

// maxConfig limits config.json, usually a few KiB.
const maxConfig = 4 << 20

// Config is the content of a config.json.
type Config struct {
	Path   string
	JSON   []byte
	Family Family
	// FilesVocab is the vocabulary size in the model's files, if it differs from JSON's; else 0.
	FilesVocab int
}

// ReadConfig reads config.json and finds its family.
func (r Registry) ReadConfig(path string) (*Config, error) {
	data, err := ReadFile(path)
	dir, missing := filepath.Dir(path), errors.Is(err, fs.ErrNotExist)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fault.Try(fmt.Errorf("model: %s is a file, but a model is a directory with config.json and model.safetensors", dir), "%s, or %s for random weights", filepath.Dir(dir), fault.Set("model.config", dir))
	} else if final := filepath.Join(dir, "final_model"); missing && isDir(final) {
		return nil, fault.Try(fmt.Errorf("model: %s is the directory of a run, not of a model", dir), "%s", fault.Set("model.path", final))
	} else if missing {
		return nil, fault.Try(fmt.Errorf("model: %s does not exist: a model is a directory with config.json and model.safetensors", path), "a directory with both, or OWNER/NAME from the hub")
	} else if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return r.ParseConfig(path, data)
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// ReadFile reads a small file of a model. It rejects files that are not regular, larger than 4 MiB,
// or of a known other format, and strips a byte order mark.
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
		return nil, fault.Try(fmt.Errorf("%s has %d bytes, too many for a %s", path, st.Size(), filepath.Base(path)), "the directory of a model")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if k, ok := filekind.Detect(path, data[:min(len(data), filekind.HeadSize)]); ok {
		return nil, fault.Try(fmt.Errorf("%s is %s", path, k.Name), "%s", k.Try)
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil // some editors write a byte order mark
}

// ParseConfig is ReadConfig for bytes; path is used in messages.
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
	return nil, fault.Try(fmt.Errorf("model: %s: architecture %s is not supported. supported: %s", path, what, strings.Join(r.Architectures(), ", ")), "a model of one of these")
}

// With returns the configuration with changed keys of config.json; nil removes a key.
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

// Modules returns the module classes in transformers, the layer first; nil if transformers lacks
// the family.
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

// Architectures lists all supported architectures.
func (r Registry) Architectures() []string {
	var names []string
	for _, f := range r {
		names = append(names, f.Architectures...)
	}
	return names
}

// Make returns the model. Errors start with the file's path.
func (c *Config) Make(b tensor.Backend, positions int) (Model, error) {
	m, err := c.Family.New(b, c.JSON, positions)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", c.Path, err)
	}
	return m, nil
}

// Decode decodes JSON into v. Type errors name key and line.
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
		return fault.Try(atLine(data, syntax.Offset, fmt.Errorf("not JSON: %w", err)), "download the file again if it is truncated")
	}
	return err
}

// found describes a JSON value as named by encoding/json.
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

// wanted describes the JSON value for a Go type.
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
	return "an integer"
}

// atLine prepends the line number to err, if data has several lines.
func atLine(data []byte, offset int64, err error) error {
	if bytes.IndexByte(data, '\n') < 0 {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n")), err)
}

// TooLong is the error of a sequence length above the positions of a model, whose config.json has them as key.
func TooLong(length, positions int, key string) error {
	return fault.Try(fmt.Errorf("sequence length %d is longer than %s %d", length, key, positions),
		"%s, and %s if rows are longer", fault.Set("data.sequence_length", positions), fault.Set("data.truncate", "true"))
}
