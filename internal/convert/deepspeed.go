package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"trireme/checkpoint"
	"trireme/fault"
	"trireme/internal/pickle"
	"trireme/internal/torchfile"
)

// zero is a DeepSpeed checkpoint whose ranks have flat partitions of float32 parameters, as
// DeepSpeed's zero_to_fp32.py reads it: under stages 1 and 2 a parameter is a range of the
// concatenated partitions of its group; under stage 3 every rank has an equal part of every
// parameter, rounded up.
type zero struct {
	s      *Source
	dir    string
	ranks  int
	stage  int
	models []*pickle.Dict // by rank; stages 1 and 2 have one
	optims []*pickle.Dict // optimizer_state_dict by rank
}

var (
	optimFile = regexp.MustCompile(`^(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt$`)
	modelFile = regexp.MustCompile(`^(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt$`)
)

// openDeepSpeed opens the directory of a DeepSpeed checkpoint, or of its tags with the file latest.
func (s *Source) openDeepSpeed() error {
	z := &zero{s: s, dir: s.Path}
	if b, err := os.ReadFile(filepath.Join(s.Path, "latest")); err == nil {
		tag := strings.TrimSpace(string(b))
		if !filepath.IsLocal(tag) || filepath.Base(tag) != tag {
			return fmt.Errorf("convert: %s names %.80q, which is not a directory beside it", filepath.Join(s.Path, "latest"), tag)
		}
		z.dir = filepath.Join(s.Path, tag)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("convert: %w", err)
	}
	models, err := z.files(modelFile)
	if err != nil {
		return err
	}
	optims, err := z.files(optimFile)
	if err != nil {
		return err
	}
	if len(models) == 0 {
		return fault.Try(fmt.Errorf("convert: %s has no *_model_states.pt", z.dir), "the directory of a complete DeepSpeed checkpoint")
	}
	if len(optims) == 0 {
		s.Format = "a DeepSpeed checkpoint without ZeRO"
		return s.openTorch(filepath.Join(z.dir, models[0]))
	}
	if err := z.open(models, optims); err != nil {
		return err
	}
	s.Format = fmt.Sprintf("a DeepSpeed ZeRO-%d checkpoint of %d ranks", z.stage, z.ranks)
	s.Step = stepOf(z.models[0])
	return z.add()
}

// files lists the files of all ranks that match a pattern, in rank order, and checks that none is
// missing.
func (z *zero) files(pattern *regexp.Regexp) ([]string, error) {
	entries, err := os.ReadDir(z.dir)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	byRank := map[int]string{}
	for _, e := range entries {
		m := pattern.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		rank, err := strconv.Atoi("0" + m[1])
		if mp, err2 := strconv.Atoi(m[2]); err != nil || err2 != nil || mp != 0 {
			return nil, fault.Try(fmt.Errorf("convert: %s is of tensor parallelism, which is not supported", filepath.Join(z.dir, e.Name())), "DeepSpeed's own conversion to a universal checkpoint")
		}
		if byRank[rank] != "" {
			return nil, fmt.Errorf("convert: %s has %s and %s", z.dir, byRank[rank], e.Name())
		}
		byRank[rank] = e.Name()
	}
	names := make([]string, len(byRank))
	for rank, name := range byRank {
		if rank >= len(byRank) {
			return nil, fault.Try(fmt.Errorf("convert: %s has %s, but only %d of %d such files", z.dir, name, len(byRank), rank+1), "the files of all ranks in one directory")
		}
		names[rank] = name
	}
	return names, nil
}

// open reads the files' pickles.
func (z *zero) open(models, optims []string) error {
	read := func(name string) (*pickle.Dict, error) {
		path := filepath.Join(z.dir, name)
		f, err := torchfile.Open(path, torchfile.Options{Allow: deepSpeedClass})
		if err != nil {
			return nil, err
		}
		z.s.closers = append(z.s.closers, f.Close)
		d, ok := f.Value().(*pickle.Dict)
		if !ok {
			return nil, fmt.Errorf("convert: %s holds %s, not the state of a rank", path, describe(f.Value()))
		}
		return d, nil
	}
	for _, name := range models {
		d, err := read(name)
		if err != nil {
			return err
		}
		z.models = append(z.models, d)
	}
	for _, name := range optims {
		d, err := read(name)
		if err != nil {
			return err
		}
		v, _ := d.Get("optimizer_state_dict")
		state, ok := v.(*pickle.Dict)
		if !ok {
			return fmt.Errorf("convert: %s has no optimizer_state_dict", filepath.Join(z.dir, name))
		}
		z.optims = append(z.optims, state)
	}
	z.ranks = len(optims)
	stage, _ := z.optims[0].Get("zero_stage")
	if o, ok := stage.(*pickle.Object); ok && len(o.Args) == 1 { // an enum
		stage = o.Args[0]
	}
	n, ok := stage.(int64)
	if !ok || n < 1 || n > 3 {
		return fmt.Errorf("convert: %s: zero_stage is %v", filepath.Join(z.dir, optims[0]), stage)
	}
	z.stage = int(n)
	want, _ := z.optims[0].Get("partition_count")
	if l, ok := want.(*pickle.List); ok && len(l.Items) > 0 { // one per group
		want = slices.MaxFunc(l.Items, func(a, b any) int {
			x, _ := a.(int64)
			y, _ := b.(int64)
			return int(x - y)
		})
	}
	if n, ok := want.(int64); ok && int(n) != z.ranks {
		return fault.Try(fmt.Errorf("convert: %s has the optimizer states of %d of %d ranks", z.dir, z.ranks, n), "the files of all ranks in one directory")
	}
	if z.stage == 3 && len(models) != z.ranks {
		return fault.Try(fmt.Errorf("convert: %s has the model states of %d of %d ranks", z.dir, len(models), z.ranks), "the files of all ranks in one directory")
	}
	return nil
}

// deepSpeedClass allows the enums and functions in DeepSpeed's states as data.
func deepSpeedClass(g pickle.Global) bool { return strings.HasPrefix(g.Module, "deepspeed.") }

// add adds parameters, moments, buffers, frozen parameters and tied names.
func (z *zero) add() error {
	groups, err := z.shapes()
	if err != nil {
		return err
	}
	if err := z.addFlat(checkpoint.Param, groups, z.master); err != nil {
		return err
	}
	for _, slot := range adamSlots {
		if z.slot(0, 0, slot) == nil {
			z.s.note("no %s: the optimizer is not Adam, or its state was not saved", slot)
			continue
		}
		if err := z.addFlat(slot, groups, func(rank, group int) *torchfile.Tensor { return z.slot(rank, group, slot) }); err != nil {
			return err
		}
	}
	if err := z.addFrozen(); err != nil {
		return err
	}
	z.addBuffers()
	return z.addTied()
}
