package safetensors

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"trireme/fault"
	"trireme/internal/filekind"
	"trireme/tensor"
)

// File names of Hugging Face's model directories.
const (
	ModelFile = "model.safetensors"
	IndexFile = "model.safetensors.index.json"
)

// ErrNoWeights is wrapped by the error for a directory without weights.
var ErrNoWeights = fmt.Errorf("neither %s nor %s", ModelFile, IndexFile)

// Files reads the tensors of a model in one or several files. Its methods are safe for concurrent
// use.
type Files struct {
	name  string
	files []*File
	infos []Info
	where map[string]*File
}

// OpenModel opens a safetensors file, an index (*.index.json), or a directory with
// model.safetensors or, failing that, model.safetensors.index.json.
func OpenModel(path string) (*Files, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("safetensors: %w", err)
	case !st.IsDir() && strings.HasSuffix(path, ".index.json"):
		return openIndex(path)
	case !st.IsDir():
		return openSingle(path)
	}
	single, index := filepath.Join(path, ModelFile), filepath.Join(path, IndexFile)
	if _, err := os.Stat(single); err == nil {
		return openSingle(single)
	}
	if _, err := os.Stat(index); err == nil {
		return openIndex(index)
	}
	return nil, fmt.Errorf("safetensors: %s has %w", path, ErrNoWeights)
}

func openSingle(path string) (*Files, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	s := &Files{name: path, files: []*File{f}, infos: f.Tensors(), where: make(map[string]*File, len(f.Tensors()))}
	for _, t := range s.infos {
		s.where[t.Name] = f
	}
	return s, nil
}

// openIndex opens every file of an index and checks that each has its tensors. Tensors not in the
// index are ignored.
func openIndex(path string) (*Files, error) {
	weights, err := readIndex(path)
	if err != nil {
		return nil, fault.Try(fmt.Errorf("safetensors: %s: %w", path, err), "download it again")
	}
	root, prefix, err := openRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	defer root.Close()
	s := &Files{name: path, where: make(map[string]*File, len(weights))}
	open := map[string]*File{}
	for _, w := range weights {
		f := open[w.file]
		if f == nil {
			if f, err = openShard(root, prefix, path, w.file, weights); err != nil {
				s.Close()
				return nil, err
			}
			open[w.file] = f
			s.files = append(s.files, f)
		}
		t, ok := f.Find(w.tensor)
		if !ok {
			s.Close()
			return nil, fault.Try(fmt.Errorf("safetensors: %s maps tensor %q to %s, which does not have it", path, clip(w.tensor), w.file), "download both again")
		}
		s.infos = append(s.infos, t)
		s.where[t.Name] = f
	}
	return s, nil
}

// openRoot confines file access to the index's directory. In a hub cache, that directory is
// snapshots/REVISION of a repository with links to ../../blobs, so the root is the repository. In a
// cache models--OWNER--NAME, blobs may link to blobs shared by all repositories, so the root is the
// cache.
func openRoot(dir string) (root *os.Root, prefix string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, "", err
	}
	if up := filepath.Dir(abs); filepath.Base(up) == "snapshots" {
		repo, prefix := filepath.Dir(up), filepath.Join("snapshots", filepath.Base(abs))
		if name := filepath.Base(repo); strings.HasPrefix(name, "models--") {
			repo, prefix = filepath.Dir(repo), filepath.Join(name, prefix)
		}
		root, err = os.OpenRoot(repo)
		return root, prefix, err
	}
	root, err = os.OpenRoot(abs)
	return root, "", err
}

func openShard(root *os.Root, prefix, index, name string, weights []weight) (*File, error) {
	path := filepath.Join(filepath.Dir(index), name)
	if st, err := root.Stat(filepath.Join(prefix, name)); err == nil && !st.Mode().IsRegular() {
		return nil, notFile(path)
	}
	f, err := root.Open(filepath.Join(prefix, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		n := 0
		for _, w := range weights {
			if w.file == name {
				n++
			}
		}
		return nil, fault.Try(fmt.Errorf("safetensors: %s is missing: %s maps %d of %d tensors to it", path, filepath.Base(index), n, len(weights)), "download it")
	case err != nil:
		return nil, fmt.Errorf("safetensors: %s names %s: %w", index, name, err)
	}
	return openFile(path, f)
}

type weight struct{ tensor, file string }

// readIndex returns the weight map, sorted by file, then tensor.
func readIndex(path string) ([]weight, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxHeader+1))
	if err != nil {
		return nil, err
	}
	return parseIndex(b)
}

func parseIndex(b []byte) ([]weight, error) {
	if len(b) > maxHeader {
		return nil, fmt.Errorf("an index of more than %d bytes", maxHeader)
	}
	var index struct {
		Metadata jsontext.Value    `json:"metadata"`
		Weights  map[string]string `json:"weight_map"`
	}
	if k, ok := filekind.Detect("", b[:min(len(b), filekind.HeadSize)]); ok {
		return nil, fault.Try(fmt.Errorf("it is %s, not an index of weights", k.Name), "%s", k.Try)
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // some editors write a byte order mark
	if err := json.UnmarshalRead(bytes.NewReader(b), &index); err != nil {
		return nil, fmt.Errorf("not a valid index: %s", plain(err))
	}
	if len(index.Weights) == 0 {
		return nil, errors.New("weight_map is missing or empty")
	}
	weights := make([]weight, 0, len(index.Weights))
	for t, f := range index.Weights {
		// Names are untrusted: reject paths that leave the directory.
		if !filepath.IsLocal(f) || f == "." || strings.ContainsAny(f, "\\\x00") {
			return nil, fmt.Errorf("tensor %q is mapped to %q, which is not a file in this directory", clip(t), clip(f))
		}
		weights = append(weights, weight{t, f})
	}
	slices.SortFunc(weights, func(a, b weight) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.tensor, b.tensor))
	})
	return weights, nil
}

// Name returns the path of the file or index.
func (s *Files) Name() string { return s.name }

// Tensors lists the model's tensors. The caller must not modify it.
func (s *Files) Tensors() []Info { return s.infos }

// Checked reports whether all files have checksums, which reads compare.
func (s *Files) Checked() bool {
	return !slices.ContainsFunc(s.files, func(f *File) bool { return !f.Checked() })
}

// Find returns the named tensor.
func (s *Files) Find(name string) (Info, bool) {
	f, ok := s.where[name]
	if !ok {
		return Info{}, false
	}
	return f.Find(name)
}

// ReadRange is File.ReadRange on the file that holds the tensor.
func (s *Files) ReadRange(name string, first, count int, dst []byte) error {
	f, ok := s.where[name]
	if !ok {
		return fmt.Errorf("safetensors: %s has no tensor %q", s.name, name)
	}
	return f.ReadRange(name, first, count, dst)
}

// ReadAs is File.ReadAs on the file that holds the tensor.
func (s *Files) ReadAs(name string, dt tensor.DType, first, count int, dst []byte) error {
	f, ok := s.where[name]
	if !ok {
		return fmt.Errorf("safetensors: %s has no tensor %q", s.name, name)
	}
	return f.ReadAs(name, dt, first, count, dst)
}

// Close closes all files.
func (s *Files) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
