package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"trireme/checkpoint"
	"trireme/checkpoint/safetensors"
	"trireme/fault"
)

// File names of Hugging Face's directories with weights of torch.save.
const (
	binFile  = "pytorch_model.bin"
	binIndex = binFile + ".index.json"
)

// OnlyTorch reports whether a Hugging Face directory has its weights only as pytorch_model.bin.
func OnlyTorch(dir string) bool {
	return !exists(dir, safetensors.ModelFile) && !exists(dir, safetensors.IndexFile) && (exists(dir, binFile) || exists(dir, binIndex))
}

// openDirectory detects the format of a directory.
func (s *Source) openDirectory() error {
	in := func(name string) bool { return exists(s.Path, name) }
	if in("config.json") {
		s.Model = s.Path
	}
	switch {
	case in("manifest.json") || in("COMMIT"):
		return s.openOwn()
	case in(dcpMetadata):
		return s.openDCP(s.Path)
	case in(fsdpDir) || in(fsdpFile):
		return s.openAccelerate()
	case in("latest") || len(glob(s.Path, "*_model_states.pt")) > 0:
		return s.openDeepSpeed()
	case in(safetensors.ModelFile) || in(safetensors.IndexFile):
		s.Format = "a Hugging Face directory"
		return s.openSafetensors(s.Path)
	case in(binFile):
		s.Format = "a Hugging Face directory with " + binFile
		return s.openTorch(filepath.Join(s.Path, binFile))
	case in(binIndex):
		s.Format = "a Hugging Face directory with " + binIndex
		return s.openBinIndex()
	}
	return s.openSteps()
}

func (s *Source) openSafetensors(path string) error {
	files, err := safetensors.OpenModel(path)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, files.Close)
	s.Unchecked = !files.Checked()
	for _, t := range files.Tensors() {
		s.Tensors = append(s.Tensors, Tensor{checkpoint.Param, t.Name, t.Type, t.Shape, func(first, count int, dst []byte) error {
			return files.ReadRange(t.Name, first, count, dst)
		}})
	}
	return nil
}

// openBinIndex opens the files of pytorch_model.bin.index.json.
func (s *Source) openBinIndex() error {
	path := filepath.Join(s.Path, binIndex)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer f.Close()
	const most = 100_000_000
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	var index struct {
		Weights map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil || len(index.Weights) == 0 {
		return fault.Try(fmt.Errorf("convert: %s is not an index of weights (%v)", path, err), "download it again")
	}
	want := map[string]string{}
	var files []string
	for name, file := range index.Weights {
		if file != filepath.Base(file) || !filepath.IsLocal(file) {
			return fmt.Errorf("convert: %s maps %.80q to %.80q, which is not a file in this directory", path, name, file)
		}
		want[clean(name)] = file
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		first := len(s.Tensors)
		if err := s.openTorch(filepath.Join(s.Path, file)); err != nil {
			return err
		}
		for _, t := range s.Tensors[first:] {
			if want[clean(t.Name)] == file {
				delete(want, clean(t.Name))
			}
		}
	}
	for name, file := range want {
		return fault.Try(fmt.Errorf("convert: %s maps %s to %s, which does not have it (%d tensors are missing)", path, name, file, len(want)), "download both again")
	}
	return nil
}

// Names in a directory of Accelerator.save_state under FSDP, with SHARDED_STATE_DICT and FULL_STATE_DICT.
const (
	fsdpDir, fsdpOptimizerDir   = "pytorch_model_fsdp_0", "optimizer_0"
	fsdpFile, fsdpOptimizerFile = "pytorch_model_fsdp.bin", "optimizer.bin"
)

// openAccelerate opens a model and its optimizer, which Accelerate saves beside each other.
func (s *Source) openAccelerate() error {
	in := func(name string) string { return filepath.Join(s.Path, name) }
	if exists(s.Path, fsdpDir) {
		dirs := []string{in(fsdpDir)}
		if exists(s.Path, fsdpOptimizerDir) {
			dirs = append(dirs, in(fsdpOptimizerDir))
		}
		if err := s.openDCP(dirs...); err != nil {
			return err
		}
	} else {
		if err := s.openTorch(in(fsdpFile)); err != nil {
			return err
		}
		if exists(s.Path, fsdpOptimizerFile) {
			if err := s.openOptimizer(in(fsdpOptimizerFile)); err != nil {
				return err
			}
		}
	}
	s.Format = "a directory of Accelerate with FSDP"
	return nil
}

var stepFile = regexp.MustCompile(`^checkpoint_(step|epoch)_(\d+)\.pt$`)

// openSteps opens the newest checkpoint_step_N.pt of a directory, or checkpoint_epoch_N.pt if there is none.
func (s *Source) openSteps() error {
	entries, err := os.ReadDir(s.Path)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	newest, last := map[string]string{}, map[string]int{"step": -1, "epoch": -1}
	var others []string
	for _, e := range entries {
		if m := stepFile.FindStringSubmatch(e.Name()); m != nil {
			if n, err := strconv.Atoi(m[2]); err == nil && n > last[m[1]] {
				newest[m[1]], last[m[1]] = e.Name(), n
			}
		}
		if ext := filepath.Ext(e.Name()); slices.Contains([]string{".pt", ".pth", ".bin", ".safetensors"}, ext) {
			others = append(others, e.Name())
		}
	}
	switch {
	case len(newest) > 0:
		s.Format = cmp.Or(newest["step"], newest["epoch"])
		s.Step = max(0, last["step"]) // that of an epoch is in the file
		return s.openTorch(filepath.Join(s.Path, s.Format))
	case len(others) > 0:
		return fault.Try(unknown{fmt.Errorf("convert: %s is no known layout of a checkpoint", s.Path)}, "one of its files: %s", strings.Join(others[:min(3, len(others))], ", "))
	}
	return fault.Try(unknown{fmt.Errorf("convert: %s has no checkpoint: no %s, %s, %s, manifest.json, latest or %s", s.Path, safetensors.ModelFile, binFile, dcpMetadata, "checkpoint_step_N.pt, checkpoint_epoch_N.pt")}, "the directory that has one of these")
}

// glob lists the files of a directory that match a pattern, sorted.
func glob(dir, pattern string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if ok, _ := filepath.Match(pattern, e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	return names
}
