package train

import (
	"fmt"
	"slices"
	"strings"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/model"
	"trireme/nn"
	"trireme/parallel"
	"trireme/tensor"
)

// weights say where the first value of each parameter comes from: a tensor of a model's files,
// or chance.
type weights struct {
	files    *safetensors.Files
	params   map[string]*nn.Param
	from     map[string]safetensors.Info // tensors that are read, by parameter
	missing  []string                    // parameters that are drawn as the files lack them, in the order of the units
	reshaped []string                    // parameters that are drawn as the files have them in another shape
	grown    []string                    // parameters with more rows than their tensors; the rest is drawn
	shrunk   []string                    // parameters with fewer rows than their tensors
	nan      map[string]bool             // tensors with values that are not finite, of the parts that this rank has read
}

// match finds the tensor of every parameter of a model made from config. Parameters without
// one, and tensors without one, are errors, unless the family or c allows them.
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
				return nil, fault.Try(fmt.Errorf("train: %s: %v cannot be read as F32: F32, BF16 and F16 can", files.Name(), info), "the weights in one of these types")
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
		return nil, fault.Try(fmt.Errorf("train: %s has none of the model's tensors: it lacks %s", files.Name(), few(missing)), "a model of this config.json, or %s to draw all at random", fault.Set("model.random_weights", "true"))
	case len(missing) > 0:
		return nil, fault.Try(fmt.Errorf("train: %s lacks %s that the model needs: %s", files.Name(), count(len(missing), "tensor"), few(missing)), "a model of this config.json, or %s to draw %s at random", allow("allow_missing", missing), themOrIt(len(missing)))
	case len(misshapen) > 0:
		return nil, fault.Try(fmt.Errorf("train: %s: %s%s", files.Name(), shapes[0], others(len(shapes))), "a model of this config.json, or %s to draw %s at random", allow("allow_missing", misshapen), themOrIt(len(misshapen)))
	}
	return w, c.checkUnexpected(config.Family, files, taken)
}

// complete refuses what is only begun: a model that is to be used, of which parameters would be drawn.
func (w *weights) complete() error {
	drawn := slices.Concat(w.missing, w.reshaped, w.grown)
	if len(drawn) == 0 {
		return nil
	}
	return fault.Try(fmt.Errorf("train: %s lacks %s: the model has not been trained for what config.json says", w.files.Name(), few(drawn)), "train it first, or the config.json that it was trained with")
}

// checkUnexpected refuses tensors of the files that no parameter takes.
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
	return fault.Try(fmt.Errorf("train: %s holds %s that the model has no place for: %s", files.Name(), count(len(unread), "tensor"), few(unread)), "the model's own config.json, or %s to leave %s unread", allow("allow_unexpected", unread), themOrIt(len(unread)))
}

// find is the tensor of a parameter, under whichever name the files give it.
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

// resized says whether a tensor of shape have is one of shape want but for the size of its
// vocabulary, which is the first dimension.
func resized(have, want tensor.Shape, was, vocab int) bool {
	return was > 0 && len(have) == len(want) && len(want) > 0 && have[0] == was && want[0] == vocab && have[1:].Equal(want[1:])
}

// loadElems is how many elements of a file are in the host's memory at one time.
const loadElems = 1 << 16

// load gives this rank's parts of all parameters their first values.
func (w *weights) load(b tensor.Backend, e *parallel.Engine, seed uint64) error {
	var room []byte
	for _, s := range e.HeldParams() {
		info, ok := w.from[s.Name]
		err := e.Fill(s, func(dst *tensor.Tensor, first int) error {
			read := 0 // elements that the tensor has
			if ok {
				read = min(dst.Elems(), max(0, info.Elems()-first))
			}
			for at := 0; at < read; at += loadElems {
				n := min(loadElems, read-at)
				room = slices.Grow(room[:0], n*s.DType.Size())[:n*s.DType.Size()]
				if err := w.files.ReadAs(info.Name, s.DType, first+at, n, room); err != nil {
					return err
				}
				if bad, _ := checkpoint.NotFinite(room, s.DType); bad > 0 {
					w.nan[info.Name] = true
				}
				b.Upload(dst.Flat(at, at+n), room)
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

// notes say what does not come from the files.
func (w *weights) notes() []string {
	var notes []string
	if len(w.missing) > 0 {
		notes = append(notes, fmt.Sprintf("%s %s new, drawn at random: %s lacks %s", few(w.missing), areOrIs(len(w.missing)), w.files.Name(), themOrIt(len(w.missing))))
	}
	if len(w.reshaped) > 0 {
		notes = append(notes, fmt.Sprintf("%s %s new, drawn at random: %s has %s in another shape", few(w.reshaped), areOrIs(len(w.reshaped)), w.files.Name(), themOrIt(len(w.reshaped))))
	}
	if len(w.grown) > 0 {
		name := w.grown[0]
		notes = append(notes, fmt.Sprintf("the vocabulary has %d rows, %d of them new, drawn at random: %s", w.params[name].Shape[0], w.params[name].Shape[0]-w.from[name].Shape[0], few(w.grown)))
	}
	if len(w.shrunk) > 0 {
		name := w.shrunk[0]
		notes = append(notes, fmt.Sprintf("the vocabulary has %d rows, the last %d of the files are left out: %s", w.params[name].Shape[0], w.from[name].Shape[0]-w.params[name].Shape[0], few(w.shrunk)))
	}
	return notes
}

// allow is the setting under model by which tensors of these names are let pass: names; where
// they are many, what those of a layer begin with; and where those are many, anything.
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

// matches says whether a name is what a pattern asks for: the name itself, or one that begins
// as a pattern does that ends in *.
func matches(pattern, name string) bool {
	prefix, wild := strings.CutSuffix(pattern, "*")
	return name == pattern || wild && strings.HasPrefix(name, prefix)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// maxNames is how many names a message lists one by one.
const maxNames = 4

// few lists the first names, and how many more there are.
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

func areOrIs(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
