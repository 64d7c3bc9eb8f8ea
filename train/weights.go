package train

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/internal/concurrent"
	"trireme/model"
	"trireme/nn"
	"trireme/parallel"
	"trireme/tensor"
)

// weights maps each parameter to its initial value: a tensor of a model's files, or a random one.
type weights struct {
	files    *safetensors.Files
	params   map[string]*nn.Param
	from     map[string]safetensors.Info // tensors to read, by parameter
	missing  []string                    // parameters not in the files, initialized, in unit order
	reshaped []string                    // parameters with another shape in the files, initialized
	grown    []string                    // parameters with more rows than their tensors; new rows are initialized
	shrunk   []string                    // parameters with fewer rows than their tensors
	nan      map[string]bool             // tensors with non-finite values, of those this rank read
}

// match finds the tensor of every parameter of a model made from config. Missing and unexpected tensors
// are errors unless the family or c allows them.
func (c ModelConfig) match(m model.Model, config *model.Config, files *safetensors.Files) (*weights, error) {
	w := &weights{files: files, params: map[string]*nn.Param{}, from: map[string]safetensors.Info{}, nan: map[string]bool{}}
	var missing, misshapen, shapes []string
	taken := map[string]bool{}
	for _, p := range model.Params(m) {
		w.params[p.Name] = p
		info, ok := find(files, config.Family, p)
		if ok {
			taken[info.Name] = true
		}
		switch {
		case ok && (info.Shape.Equal(p.Shape) || resized(info.Shape, p.Shape, config.FilesVocab, m.Info().Vocab)):
			if dt, known := info.Type.DType(); !known || !safetensors.Convertible(dt, tensor.F32) {
				return nil, fault.Try(fmt.Errorf("train: %s: %v has an unsupported type: F32, BF16 and F16 are supported", files.Name(), info), "weights converted to one of these types")
			}
			w.from[p.Name] = info
			switch have, want := info.Elems(), p.Shape.Elems(); {
			case have < want:
				w.grown = append(w.grown, p.Name)
			case have > want:
				w.shrunk = append(w.shrunk, p.Name)
			}
		case ok && matchesAny(c.AllowMissing, p.Name):
			w.reshaped = append(w.reshaped, p.Name)
		case !ok && (matchesAny(c.AllowMissing, p.Name) || config.Family.IgnoreMissing != nil && config.Family.IgnoreMissing(p.Name)):
			w.missing = append(w.missing, p.Name)
		case ok:
			misshapen, shapes = append(misshapen, p.Name), append(shapes, fmt.Sprintf("%s is %v, config.json makes it %v", info.Name, info.Shape, p.Shape))
		default:
			missing = append(missing, p.Name)
		}
	}
	switch {
	case len(missing) > 0 && len(taken) == 0:
		return nil, fault.Try(fmt.Errorf("train: %s has none of the model's tensors, such as %s", files.Name(), few(missing)), "a model of this config.json, or %s to initialize all weights", fault.Set("model.random_weights", "true"))
	case len(missing) > 0:
		return nil, fault.Try(fmt.Errorf("train: %s: %s missing: %s", files.Name(), count(len(missing), "tensor"), few(missing)), "a model of this config.json, or %s to initialize %s", allow("allow_missing", missing), themOrIt(len(missing)))
	case len(misshapen) > 0:
		return nil, fault.Try(fmt.Errorf("train: %s: %s%s", files.Name(), shapes[0], others(len(shapes))), "a model of this config.json, or %s to initialize %s", allow("allow_missing", misshapen), themOrIt(len(misshapen)))
	}
	return w, c.checkUnexpected(config.Family, files, taken)
}

// complete returns an error if a parameter would be initialized at random.
func (w *weights) complete() error {
	drawn := slices.Concat(w.missing, w.reshaped, w.grown)
	if len(drawn) == 0 {
		return nil
	}
	return fault.Try(fmt.Errorf("train: %s: %s not in the files or of another shape: the weights do not fit config.json", w.files.Name(), few(drawn)), "train the model first, or use the config.json it was trained with")
}

// checkUnexpected refuses tensors that belong to no parameter.
func (c ModelConfig) checkUnexpected(f model.Family, files *safetensors.Files, taken map[string]bool) error {
	var unread []string
	for _, t := range files.Tensors() {
		if !taken[t.Name] && !(f.IgnoreUnexpected != nil && f.IgnoreUnexpected(t.Name)) && !matchesAny(c.AllowUnexpected, t.Name) {
			unread = append(unread, t.Name)
		}
	}
	if len(unread) == 0 {
		return nil
	}
	return fault.Try(fmt.Errorf("train: %s: %s not in the model: %s", files.Name(), count(len(unread), "tensor"), few(unread)), "the model's own config.json, or %s to ignore %s", allow("allow_unexpected", unread), themOrIt(len(unread)))
}

// find returns the tensor of a parameter under any of its names.
func find(files *safetensors.Files, f model.Family, p *nn.Param) (safetensors.Info, bool) {
	names := append(slices.Clone(p.Aliases), p.Name)
	if f.Aliases != nil {
		names = append(names, f.Aliases(p.Name)...)
	}
	for _, name := range names {
		if info, ok := files.Find(name); ok {
			return info, true
		}
	}
	return safetensors.Info{}, false
}

// resized reports whether shapes differ only in the vocabulary size, the first dimension.
func resized(have, want tensor.Shape, was, vocab int) bool {
	return was > 0 && len(have) == len(want) && len(want) > 0 && have[0] == was && want[0] == vocab && have[1:].Equal(want[1:])
}

// maxLoadPart is the maximum number of elements of a part of a tensor that a goroutine reads. Parts are long, because
// two goroutines that touch a new huge page at the same time would both allocate and clear one.
const maxLoadPart = 1 << 23

// load initializes this rank's shards of all parameters.
func (w *weights) load(b tensor.Backend, e *parallel.Engine, seed uint64) error {
	for _, s := range e.HeldParams() {
		info, ok := w.from[s.Name]
		err := e.Fill(s, func(dst *tensor.Tensor, first int) error {
			read := 0 // elements in the file
			if ok {
				read = min(dst.Elems(), max(0, info.Elems()-first))
			}
			if read > 0 {
				if err := w.read(b, info, dst.Flat(0, read), first); err != nil {
					return err
				}
			}
			if read < dst.Elems() {
				w.params[s.Name].Fill(b, dst.Flat(read, dst.Elems()), seed, first+read)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read sets dst to a tensor's elements from first on. Host memory is filled by all processors: the time goes to
// copies out of the page cache, conversions, and pages that are touched for the first time.
func (w *weights) read(b tensor.Backend, info safetensors.Info, dst *tensor.Tensor, first int) error {
	workers, part := 1, dst.Elems()
	if dst.Buffer().Bytes != nil {
		workers = concurrent.Processors()
		blocks := ((part+workers-1)/workers + block(info) - 1) / block(info)
		part = min(blocks*block(info), maxLoadPart)
	}
	var bad atomic.Bool
	err := concurrent.Each(workers, (dst.Elems()+part-1)/part, func(_, i int) error {
		lo, hi := i*part, min(dst.Elems(), (i+1)*part)
		finite, err := w.readPart(b, info, dst.Flat(lo, hi), first+lo)
		if !finite {
			bad.Store(true)
		}
		return err
	})
	if bad.Load() {
		w.nan[info.Name] = true
	}
	return err
}

// block is the number of elements that are read and checked at once: those of a checksum.
func block(info safetensors.Info) int { return safetensors.BlockBytes / info.Type.Size() }

// readPart is read in one goroutine. It reports whether all elements are finite.
func (w *weights) readPart(b tensor.Backend, info safetensors.Info, dst *tensor.Tensor, first int) (finite bool, err error) {
	host := dst.Buffer().Bytes != nil
	var uploaded []byte
	if !host {
		uploaded = make([]byte, min(block(info), dst.Elems())*dst.DType().Size())
	}
	finite = true
	for lo := 0; lo < dst.Elems(); {
		hi := min(dst.Elems(), lo+block(info)-(first+lo)%block(info))
		some := dst.Flat(lo, hi)
		to := uploaded[:min(len(uploaded), some.Bytes())]
		if host {
			to = tensor.HostBytes(some)
		}
		if err := w.files.ReadAs(info.Name, some.DType(), first+lo, some.Elems(), to); err != nil {
			return finite, input(err)
		}
		if n, _ := checkpoint.NotFinite(to, some.DType()); n > 0 {
			finite = false
		}
		if !host {
			b.Upload(some, to)
		}
		lo = hi
	}
	return finite, nil
}

// notes lists the parameters not taken from the files as they are.
func (w *weights) notes() []string {
	var notes []string
	if len(w.missing) > 0 {
		notes = append(notes, fmt.Sprintf("newly initialized, not in %s: %s", w.files.Name(), few(w.missing)))
	}
	if len(w.reshaped) > 0 {
		notes = append(notes, fmt.Sprintf("newly initialized, of another shape in %s: %s", w.files.Name(), few(w.reshaped)))
	}
	if len(w.grown) > 0 {
		name := w.grown[0]
		notes = append(notes, fmt.Sprintf("vocabulary resized to %d rows, %d newly initialized: %s", w.params[name].Shape[0], w.params[name].Shape[0]-w.from[name].Shape[0], few(w.grown)))
	}
	if len(w.shrunk) > 0 {
		name := w.shrunk[0]
		notes = append(notes, fmt.Sprintf("vocabulary resized to %d rows, the last %d in the files are dropped: %s", w.params[name].Shape[0], w.from[name].Shape[0]-w.params[name].Shape[0], few(w.shrunk)))
	}
	return notes
}

// allow is the setting that accepts tensors of these names: the names; if there are many, prefixes up
// to the layer number; if those are many too, *.
func allow(key string, names []string) fault.Setting {
	if len(names) <= maxNames {
		return fault.Set("model."+key, "["+strings.Join(names, ",")+"]")
	}
	var begins []string
	for _, name := range names {
		parts := strings.Split(name, ".")
		if n := slices.IndexFunc(parts, func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }); n >= 0 && n < len(parts)-1 {
			name = strings.Join(parts[:n+1], ".") + ".*"
		}
		if !slices.Contains(begins, name) {
			begins = append(begins, name)
		}
	}
	if len(begins) > 2*maxNames {
		begins = []string{"*"}
	}
	return fault.Set("model."+key, "["+strings.Join(begins, ",")+"]")
}

// matches reports whether name equals pattern, or starts with a pattern that ends in *.
func matches(pattern, name string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return name == pattern || wild && strings.HasPrefix(name, prefix)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

const maxNames = 4

func few(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func others(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n-1)
}

func themOrIt(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
