package checkpoint

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"trireme/checkpoint/safetensors"
)

var (
	exportTemp  = regexp.MustCompile(`^\.tmp-model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?$`)
	exportShard = regexp.MustCompile(`^model-\d{5}-of-\d{5}(\.\d+)?\.safetensors$`)
)

func (e *exporter) sweep() error {
	names, err := e.fs.ReadDir(e.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, name := range names {
		if exportTemp.MatchString(name) {
			if err := e.fs.RemoveAll(filepath.Join(e.dir, name)); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
	}
	return nil
}

// publish writes the headers with the checksums of what each rank wrote, renames the files to their final names, the index last,
// and removes older weights in the directory that readers would load instead.
func (e *exporter) publish(sums [][][]safetensors.Part) error {
	for _, f := range e.files {
		if err := verifyFile(e.fs, e.dir, describeFile(tempPrefix+f.name, f.layout)); err != nil {
			return fmt.Errorf("checkpoint: rank 0 cannot see another rank's file: %s %w; %s", f.temp(e.dir), err, sameDirectory)
		}
	}
	if err := e.writeHeaders(sums); err != nil {
		return err
	}
	names, err := e.names()
	if err != nil {
		return err
	}
	from := make([]string, len(e.files))
	for i, f := range e.files {
		from[i] = f.name
	}
	if len(e.files) > 1 {
		b, err := e.index(names)
		if err != nil {
			return err
		}
		path := filepath.Join(e.dir, tempPrefix+safetensors.IndexFile)
		err = writeFile(e.fs, path, int64(len(b)), false, func(w file) error { return writeAt(w, b, 0, safetensors.IndexFile) })
		if err != nil {
			return err
		}
		from, names = append(from, safetensors.IndexFile), append(names, safetensors.IndexFile)
	}
	for i, name := range names {
		if err := e.fs.Rename(filepath.Join(e.dir, tempPrefix+from[i]), filepath.Join(e.dir, name)); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	if err := e.syncDir(); err != nil {
		return err
	}
	return e.removeOthers(names)
}

// writeHeaders writes the headers with the checksums of what each rank wrote.
func (e *exporter) writeHeaders(sums [][][]safetensors.Part) error {
	for i, f := range e.files {
		for rank, parts := range sums {
			if rank == e.rank {
				continue
			}
			if len(parts) != len(e.files) {
				return fmt.Errorf("checkpoint: rank %d sent checksums of %d files, not %d", rank, len(parts), len(e.files))
			}
			if err := f.sums.Merge(parts[i]); err != nil {
				return fmt.Errorf("checkpoint: rank %d: %w", rank, err)
			}
		}
		err := writeFile(e.fs, f.temp(e.dir), f.layout.Size(), true, func(w file) error { return writeAt(w, f.sums.Header(), 0, "a header") })
		if err != nil {
			return err
		}
	}
	return nil
}

// names chooses the final names. The old index stays valid until the new one replaces it, so new
// shards never reuse an existing name: they get a number, as in model-00001-of-00002.1.safetensors.
func (e *exporter) names() ([]string, error) {
	there, err := e.fs.ReadDir(e.dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	names := make([]string, len(e.files))
	for try := 0; ; try++ {
		taken := false
		for i, f := range e.files {
			names[i] = f.name
			if try > 0 {
				names[i] = fmt.Sprintf("%s.%d.safetensors", strings.TrimSuffix(f.name, ".safetensors"), try)
			}
			taken = taken || slices.Contains(there, names[i])
		}
		if !taken || len(names) == 1 { // renaming a single file is atomic
			return names, nil
		}
	}
}

// index returns model.safetensors.index.json for these file names.
func (e *exporter) index(names []string) ([]byte, error) {
	type metadata struct {
		TotalSize int64 `json:"total_size"`
	}
	weights := make(map[string]string, len(e.where))
	for name, i := range e.where {
		weights[name] = names[i]
	}
	b, err := json.Marshal(struct {
		Metadata metadata          `json:"metadata"`
		Weights  map[string]string `json:"weight_map"`
	}{metadata{e.total}, weights}, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("checkpoint: encode %s: %w", safetensors.IndexFile, err)
	}
	return append(b, '\n'), nil
}

func (e *exporter) removeOthers(keep []string) error {
	names, err := e.fs.ReadDir(e.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, name := range names {
		weights := name == safetensors.ModelFile || name == safetensors.IndexFile || exportShard.MatchString(name)
		if weights && !slices.Contains(keep, name) {
			if err := e.fs.RemoveAll(filepath.Join(e.dir, name)); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
	}
	return e.syncDir()
}

func (e *exporter) syncDir() error {
	if err := e.fs.SyncDir(e.dir); err != nil {
		return fmt.Errorf("checkpoint: sync %s: %w", e.dir, err)
	}
	return nil
}
