package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/internal/pickle"
	"trireme/internal/torchfile"
	"trireme/tensor"
)

const (
	dcpMetadata = ".metadata"
	maxMetadata = 1 << 30
)

// dcpChunk is a box of a tensor in a file: a section that is a file of torch.save.
type dcpChunk struct {
	tensor.Box
	path           string
	offset, length int64
	as             safetensors.Type

	open sync.Once
	t    *torchfile.Tensor
	err  error
}

// dcpTensor is a tensor of .metadata.
type dcpTensor struct {
	key    string
	path   []string // of the key in the saved state dict
	dtype  safetensors.Type
	shape  tensor.Shape
	chunks []*dcpChunk
}

// openDCP opens directories of torch.distributed.checkpoint, whose tensors are those of one model.
func (s *Source) openDCP(dirs ...string) error {
	s.Format = "a torch.distributed.checkpoint directory"
	var steps []int
	for _, dir := range dirs {
		more, err := s.addDCP(dir)
		if err != nil {
			return err
		}
		steps = append(steps, more...)
	}
	s.countSteps(steps)
	return nil
}

// addDCP adds the tensors of a directory, and returns the numbers of optimizer steps in it.
func (s *Source) addDCP(dir string) (steps []int, err error) {
	name := filepath.Join(dir, dcpMetadata)
	st, err := os.Stat(name)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxMetadata {
		return nil, fmt.Errorf("convert: %s is not a readable file below %d bytes", name, maxMetadata)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	all, skipped, err := parseDCP(b)
	if err != nil {
		return nil, fault.Try(fmt.Errorf("convert: %s: %w", name, err), "the directory of a complete torch.distributed.checkpoint.save")
	}
	files := &dcpFiles{dir: dir, files: map[string]*os.File{}}
	s.closers = append(s.closers, files.close)
	for _, t := range all {
		for _, c := range t.chunks {
			if err := files.check(c); err != nil {
				return nil, fmt.Errorf("convert: %s: %s: %w", dir, t.key, err)
			}
		}
		kind, param, ok := dcpKind(t.path)
		if !ok {
			skipped = append(skipped, t.key)
			continue
		}
		one := Tensor{kind, param, t.dtype, t.shape, func(first, count int, dst []byte) error {
			return t.read(files, first, count, dst)
		}}
		if kind != stepSlot {
			s.Tensors = append(s.Tensors, one)
			continue
		}
		n, err := one.whole()
		if err != nil {
			return nil, fmt.Errorf("convert: %s: %w", dir, err)
		}
		steps = append(steps, n)
	}
	if len(skipped) > 0 {
		slices.Sort(skipped)
		s.note("left out, neither parameters nor moments: %s", few(skipped))
	}
	return steps, nil
}

// dcpKind returns the kind and name of a tensor by its path in the saved state dict: NAME,
// model/NAME, or optimizer/state/NAME/exp_avg, exp_avg_sq or step.
func dcpKind(path []string) (kind, name string, ok bool) {
	switch {
	case len(path) > 1 && strings.HasPrefix(path[0], "optim"):
		rest, state := strings.CutPrefix(strings.Join(path[1:], "."), "state.")
		for _, slot := range append(adamSlots, stepSlot) {
			if name, ok := strings.CutSuffix(rest, "."+slot); ok && state {
				return slot, name, true
			}
		}
		return "", "", false
	case len(path) > 1 && slices.Contains(stateKeys, path[0]):
		path = path[1:]
	}
	return checkpoint.Param, strings.Join(path, "."), true
}

// parseDCP reads .metadata. skipped are the keys of values that are not tensors.
func parseDCP(b []byte) (all []*dcpTensor, skipped []string, err error) {
	v, n, err := pickle.Decode(b, pickle.Config{Call: dcpCall})
	if err != nil {
		return nil, nil, err
	}
	root, ok := v.(*pickle.Object)
	if !ok || n != len(b) || root.Class.Name != "Metadata" {
		return nil, nil, errors.New("it is not the metadata of a checkpoint")
	}
	state, ok1 := root.Field("state_dict_metadata").(*pickle.Dict)
	storage, ok2 := root.Field("storage_data").(*pickle.Dict)
	if !ok1 || !ok2 {
		return nil, nil, errors.New("it has no state_dict_metadata or no storage_data")
	}
	sections, err := dcpStorage(storage)
	if err != nil {
		return nil, nil, err
	}
	fields, _ := root.State.(*pickle.Dict)
	planned, ok := fields.Get("planner_data")
	if !ok {
		return nil, nil, errors.New("it has no planner_data")
	}
	paths, _ := planned.(*pickle.Dict)
	for i, k := range state.Keys {
		key, ok := k.(string)
		o, isObject := state.Values[i].(*pickle.Object)
		if !ok || !isObject {
			return nil, nil, fmt.Errorf("key %v has no metadata", k)
		}
		switch o.Class.Name {
		case "TensorStorageMetadata":
		case "BytesStorageMetadata":
			skipped = append(skipped, key)
			continue
		default:
			return nil, nil, fmt.Errorf("%s has metadata of the unknown class %.60q", key, o.Class.Name)
		}
		t, err := newDCPTensor(key, o, sections)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", key, err)
		}
		if t.path = dcpPath(paths, key); strings.Join(t.path, ".") != key {
			return nil, nil, fmt.Errorf("%q is at %q in the state dict", key, t.path)
		}
		all = append(all, t)
	}
	return all, skipped, nil
}

// dcpCall allows the calls of .metadata.
func dcpCall(f pickle.Global, args pickle.Tuple) (any, error) {
	if v, ok := pickle.Simple(f, args); ok {
		return v, nil
	}
	switch f {
	case pickle.Global{Module: "torch", Name: "Size"}:
		if len(args) == 1 {
			if t, ok := args[0].(pickle.Tuple); ok {
				return t, nil
			}
		}
	case pickle.Global{Module: "torch.serialization", Name: "_get_layout"},
		pickle.Global{Module: "torch.distributed.checkpoint.metadata", Name: "_MEM_FORMAT_ENCODING"},
		pickle.Global{Module: "pathlib", Name: "PosixPath"}, pickle.Global{Module: "pathlib._local", Name: "PosixPath"}, pickle.Global{Module: "pathlib", Name: "WindowsPath"}:
		return &pickle.Object{Class: f, Args: args}, nil
	}
	return nil, &pickle.Refused{Global: f}
}

// dcpPath is the path of a key in the saved state dict; empty if the metadata lacks it.
func dcpPath(paths *pickle.Dict, key string) []string {
	if paths == nil {
		return []string{key}
	}
	v, _ := paths.Get(key)
	t, _ := v.(pickle.Tuple)
	var path []string
	for _, p := range t {
		path = append(path, fmt.Sprint(p))
	}
	return path
}

// dcpIndex is a MetadataIndex: a key and an offset.
func dcpIndex(fqn string, offsets []int) string { return fmt.Sprint(fqn, "\x00", offsets) }

// dcpStorage maps each MetadataIndex to its section of a file.
func dcpStorage(d *pickle.Dict) (map[string]*pickle.Object, error) {
	out := make(map[string]*pickle.Object, len(d.Keys))
	for i, k := range d.Keys {
		index, ok := k.(*pickle.Object)
		info, ok2 := d.Values[i].(*pickle.Object)
		if !ok || !ok2 {
			return nil, errors.New("storage_data is not a dict of MetadataIndex")
		}
		fqn, ok := index.Field("fqn").(string)
		if !ok {
			return nil, errors.New("a MetadataIndex has no fqn")
		}
		offsets, _ := pickle.Ints(index.Field("offset")) // None for values that are not tensors
		out[dcpIndex(fqn, offsets)] = info
	}
	return out, nil
}

func newDCPTensor(key string, o *pickle.Object, sections map[string]*pickle.Object) (*dcpTensor, error) {
	t := &dcpTensor{key: key}
	properties, _ := o.Field("properties").(*pickle.Object)
	var ok bool
	if properties != nil {
		if state, isTuple := properties.State.(pickle.Tuple); isTuple && len(state) > 0 {
			g, _ := state[0].(pickle.Global)
			t.dtype, ok = torchfile.DType(g)
		}
	}
	if !ok {
		return nil, errors.New("its type is not supported")
	}
	if t.shape, ok = pickle.Ints(o.Field("size")); !ok || !validShape(t.shape) {
		return nil, errors.New("it has no valid size")
	}
	chunks, ok := o.Field("chunks").(*pickle.List)
	if !ok {
		return nil, errors.New("it has no chunks")
	}
	for _, v := range chunks.Items {
		c, _ := v.(*pickle.Object)
		if c == nil {
			return nil, errors.New("a chunk is not an object")
		}
		offsets, ok1 := pickle.Ints(c.Field("offsets"))
		sizes, ok2 := pickle.Ints(c.Field("sizes"))
		box := tensor.Box{Offsets: offsets, Sizes: sizes}
		if !ok1 || !ok2 || len(offsets) != len(t.shape) || len(sizes) != len(t.shape) || !box.In(t.shape) {
			return nil, fmt.Errorf("chunk %v + %v is outside %v", offsets, sizes, t.shape)
		}
		info := sections[dcpIndex(key, offsets)]
		if info == nil {
			return nil, fmt.Errorf("chunk %v is in no file", offsets)
		}
		path, ok1 := info.Field("relative_path").(string)
		offset, ok2 := info.Field("offset").(int64)
		length, ok3 := info.Field("length").(int64)
		switch {
		case info.Field("transform_descriptors") != nil:
			return nil, fault.Try(errors.New("it is transformed by an extension"), "saving without extensions")
		case !ok1 || !ok2 || !ok3 || offset < 0 || length <= 0 || !filepath.IsLocal(path):
			return nil, fmt.Errorf("chunk %v has no valid path, offset and length", offsets)
		}
		t.chunks = append(t.chunks, &dcpChunk{Box: box, path: path, offset: offset, length: length, as: t.dtype})
	}
	return t, t.checkChunks()
}

// checkChunks checks that the chunks hold each element once.
func (t *dcpTensor) checkChunks() error {
	const most = 1 << 13 // the comparison of all pairs is bounded
	if len(t.chunks) > most {
		return fmt.Errorf("it has %d chunks, more than %d", len(t.chunks), most)
	}
	n := 0
	for i, c := range t.chunks {
		if n += c.Elems(); c.Elems() == 0 {
			continue
		}
		for _, o := range t.chunks[:i] {
			if _, both := c.Intersect(o.Box); both {
				return fmt.Errorf("chunks %v and %v overlap", c.Box, o.Box)
			}
		}
	}
	if n != t.shape.Elems() {
		return fmt.Errorf("its chunks have %d of %d elements", n, t.shape.Elems())
	}
	return nil
}

func validShape(s tensor.Shape) bool {
	n := 1
	for _, d := range s {
		if d < 0 || d > 0 && n > 1<<56/d {
			return false
		}
		n *= max(d, 1)
	}
	return len(s) <= 64
}

// read reads elements [first, first+count), of all chunks that have some.
func (t *dcpTensor) read(files *dcpFiles, first, count int, dst []byte) error {
	size := t.dtype.Size()
	for _, box := range tensor.FullBox(t.shape).Range(first, first+count) {
		for _, c := range t.chunks {
			both, ok := box.Intersect(c.Box)
			if !ok {
				continue
			}
			part, err := files.tensor(c)
			if err != nil {
				return fmt.Errorf("convert: %s: %w", t.key, err)
			}
			for run := range both.Runs(c.Box, box) {
				if err := part.ReadRange(run.X, run.N, dst[run.Y*size:(run.Y+run.N)*size]); err != nil {
					return err
				}
			}
		}
		dst = dst[box.Elems()*size:]
	}
	return nil
}
