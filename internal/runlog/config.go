package runlog

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trireme/internal/conf"
	"trireme/internal/rundir"
)

// maxConfig limits the size of a configuration that is read.
const maxConfig = 4 << 20

// ConfigText returns config.yaml, empty if there is none.
func (r *Run) ConfigText() string {
	path := filepath.Join(r.dir, rundir.Config)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Size() > maxConfig {
		return ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// Config returns the values of config.yaml by path (training.learning_rate); elements of a list are joined by
// ", ". It is empty without a valid file.
func (r *Run) Config() map[string]string {
	out := map[string]string{}
	text := r.ConfigText()
	if text == "" {
		return out
	}
	v, err := conf.Parse(rundir.Config, text)
	if err == nil {
		flatten(out, "", v)
	}
	return out
}

func flatten(out map[string]string, path string, v conf.Value) {
	switch v.Kind {
	case conf.Group:
		for _, k := range v.Keys {
			flatten(out, join(path, k.Name), k.Value)
		}
	case conf.List:
		var items []string
		for i, item := range v.Items {
			if item.Kind != conf.Scalar {
				flatten(out, path+"["+strconv.Itoa(i)+"]", item)
				continue
			}
			items = append(items, item.Text)
		}
		if len(items) == len(v.Items) {
			out[path] = strings.Join(items, ", ")
		}
	case conf.Scalar:
		out[path] = v.Text
	default:
		out[path] = ""
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Difference is a key whose values differ between runs.
type Difference struct {
	Key    string
	Values []string // of each run; "" if it does not have the key
}

// DiffConfig returns the keys in which configurations differ, sorted.
func DiffConfig(configs ...map[string]string) (out []Difference) {
	keys := map[string]bool{}
	for _, c := range configs {
		for k := range c {
			keys[k] = true
		}
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		d := Difference{Key: k}
		differs := false
		for _, c := range configs {
			d.Values = append(d.Values, c[k])
			differs = differs || c[k] != d.Values[0]
		}
		if differs {
			out = append(out, d)
		}
	}
	return out
}

// Checkpoint is a checkpoint in the run's directory.
type Checkpoint struct {
	Path  string
	Step  int64
	Bytes int64 // of its files
}

// Checkpoints lists the checkpoints of the run by step. Incomplete ones are not listed.
func (r *Run) Checkpoints() ([]Checkpoint, error) {
	dir := filepath.Join(r.dir, rundir.Checkpoints)
	if at := r.Config()["checkpoint.dir"]; at != "" {
		dir = at
		if !filepath.IsAbs(at) {
			if _, err := os.Stat(at); err != nil {
				dir = filepath.Join(r.dir, rundir.Checkpoints)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	var out []Checkpoint
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "step-")
		step, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || !e.IsDir() || step < 0 {
			continue
		}
		c := Checkpoint{Path: filepath.Join(dir, e.Name()), Step: step}
		files, err := os.ReadDir(c.Path)
		if err != nil {
			continue
		}
		for _, f := range files {
			if st, err := f.Info(); err == nil && st.Mode().IsRegular() {
				c.Bytes += st.Size()
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Checkpoint) int { return int(a.Step - b.Step) })
	return out, nil
}
