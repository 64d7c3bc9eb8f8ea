package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"trireme/checkpoint/safetensors"
	"trireme/fault"
	"trireme/internal/rundir"
	"trireme/tensor"
)

// Store is the checkpoint directory of one run, as one rank sees it. All ranks call Save and Resume
// in the same order, each from one goroutine.
type Store struct {
	dir       string
	run       string // run ID; empty until resumed or first saved
	cfg       Config
	ranks     ProcessGroup
	memory    memory
	fs        fileSystem
	chunk     int
	protected int // step of the checkpoint that retain keeps; -1 for none
}

// NewStore returns the Store of a run that writes to outputDir. Only rank 0 needs the run ID (see
// rundir.ValidID); if empty, it is taken from the checkpoint that Resume finds, or generated.
// device copies tensors that are not in host memory and waits for pending work; it may be nil if
// there are none.
func NewStore(outputDir, run string, cfg Config, ranks ProcessGroup, device tensor.Memory) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if run != "" && !rundir.ValidID(run) {
		return nil, fmt.Errorf("checkpoint: invalid run ID %q: use up to 64 letters, digits, \".\", \"_\" and \"-\"", run)
	}
	return &Store{dir: cfg.Directory(outputDir), run: run, cfg: cfg, ranks: ranks, memory: memory{device}, fs: disk{}, chunk: chunkBytes, protected: -1}, nil
}

// Protect excludes the checkpoint of a step from deletion. It replaces an earlier call.
func (s *Store) Protect(step int) { s.protected = step }

// StepPath returns the path of the checkpoint of a step.
func (s *Store) StepPath(step int) string { return filepath.Join(s.dir, stepDir(step)) }

// Dir returns the checkpoint directory.
func (s *Store) Dir() string { return s.dir }

// SaveResult is the result of Save. It is equal on all ranks except for Notices, which only rank 0
// has.
type SaveResult struct {
	Path    string
	Bytes   int64    // of all data files
	Written Written  // how rank 0 wrote
	Notices []string // problems that did not fail the save: old checkpoints that could not be deleted
}

// proposal is a rank's input to a save.
type proposal struct {
	Dir  string `json:"dir"` // rank 0's temporary directory
	Step int    `json:"step"`
	Type string `json:"type"`
	Held []held `json:"held"`
}

// Save saves the items of all ranks and returns when they are durable. All ranks pass the same
// step; the rest of Meta is rank 0's. If any rank fails, all return its error, the attempt is
// removed, and earlier checkpoints are unchanged. An existing checkpoint of the same step is
// replaced.
func (s *Store) Save(ctx context.Context, meta Meta, items []Item) (SaveResult, error) {
	v, err := s.Start(ctx, meta, items, nil)
	if err != nil {
		return SaveResult{}, err
	}
	return v.Wait(ctx)
}

// begin removes unfinished saves and creates the temporary directory.
func (s *Store) begin(meta Meta) (string, error) {
	if meta.Step < 0 {
		return "", fmt.Errorf("checkpoint: invalid step %d", meta.Step)
	}
	if len(meta.State) > 0 && !jsontext.Value(meta.State).IsValid() {
		return "", errors.New("checkpoint: the training state to save is not JSON")
	}
	if s.run == "" {
		s.run = rundir.NewID()
	}
	if err := s.fs.MkdirAll(s.dir); err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	if err := s.syncParents(); err != nil {
		return "", err
	}
	if err := s.sweep(); err != nil {
		return "", err
	}
	tmp := filepath.Join(s.dir, fmt.Sprintf("%s%s-%s", tempPrefix, stepDir(meta.Step), rand.Text()[:8]))
	if err := s.fs.MkdirAll(tmp); err != nil {
		return "", fmt.Errorf("checkpoint: %w", err)
	}
	return tmp, nil
}

// syncParents makes the names of the directory and its parent durable, since both may be new. The
// parent's parent may be unreadable for this user.
func (s *Store) syncParents() error {
	up := filepath.Dir(s.dir)
	for i, dir := range []string{up, filepath.Dir(up)} {
		if err := s.fs.SyncDir(dir); err != nil && !(i > 0 && errors.Is(err, fs.ErrPermission)) {
			return fmt.Errorf("checkpoint: sync %s: %w", dir, err)
		}
	}
	return nil
}

// writer returns the writer of this rank's parts.
func (s *Store) writer(tmp string, items []Item, all []proposal) (*writer, error) {
	world := make([][]held, len(all))
	for rank, p := range all {
		if p.Step != all[0].Step || p.Type != all[0].Type {
			return nil, fmt.Errorf("checkpoint: rank %d saves step %d as %q, rank 0 step %d as %q", rank, p.Step, p.Type, all[0].Step, all[0].Type)
		}
		world[rank] = p.Held
	}
	plan, err := plan(world)
	if err != nil {
		return nil, err
	}
	w := &writer{fs: s.fs, dir: tmp, rank: s.ranks.Rank(), memory: s.memory, chunk: s.chunk, items: items, plan: plan}
	return w, w.lay(s.cfg.StateDictType)
}

// commit commits the data that all ranks have synced.
func (s *Store) commit(tmp string, meta Meta, plan []planned, parts []written) (bytes int64, notices []string, err error) {
	m := s.manifest(meta, plan, parts)
	if err := m.check(); err != nil {
		return 0, nil, fmt.Errorf("checkpoint: the ranks' files are inconsistent: %w", err)
	}
	b, err := m.encode()
	if err != nil {
		return 0, nil, err
	}
	for _, f := range m.Files {
		if err := verifyFile(s.fs, tmp, f); err != nil {
			return 0, nil, fmt.Errorf("checkpoint: rank 0 cannot see another rank's file: %s %w; %s", filepath.Join(tmp, f.Name), err, sameDirectory)
		}
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{manifestName, b}, {commitName, commitRecord(m, b)}} {
		err := writeFile(s.fs, filepath.Join(tmp, f.name), int64(len(f.content)), func(w file) error {
			return writeAt(w, f.content, 0, f.name)
		})
		if err != nil {
			return 0, nil, err
		}
	}
	if err := s.fs.SyncDir(tmp); err != nil {
		return 0, nil, fmt.Errorf("checkpoint: sync %s: %w", tmp, err)
	}
	notices, err = s.publish(tmp, meta.Step)
	return m.bytes(), notices, err
}

// publish renames a committed directory to its final name. An existing one of that name is set
// aside first; List still finds it until the new one is durable.
func (s *Store) publish(tmp string, step int) (notices []string, err error) {
	final := filepath.Join(s.dir, stepDir(step))
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	replaced := ""
	if slices.Contains(names, stepDir(step)) {
		if m, err := verify(s.fs, final); err == nil && !owns(s.run, Candidate{Run: m.Run}) {
			return nil, fault.Try(fmt.Errorf("checkpoint: %s belongs to another run (%s) and is not replaced", final, m.Run), "another output_dir, or another checkpoint.dir")
		}
		replaced = filepath.Join(s.dir, fmt.Sprintf("%s%s-%s", replacedPrefix, stepDir(step), rand.Text()[:8]))
		if err := s.fs.Rename(final, replaced); err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
	}
	if err := s.fs.Rename(tmp, final); err != nil {
		if replaced != "" {
			err = errors.Join(err, s.fs.Rename(replaced, final))
		}
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return nil, fmt.Errorf("checkpoint: sync %s: %w", s.dir, err)
	}
	if replaced != "" {
		if err := s.remove(replaced); err != nil {
			notices = append(notices, err.Error())
		}
	}
	return notices, nil
}

// manifest merges what the ranks wrote.
func (s *Store) manifest(meta Meta, plan []planned, parts []written) *manifest {
	m := &manifest{
		Format: formatName, Version: formatVersion, Run: s.run, Step: meta.Step, Epoch: meta.Epoch,
		WorldSize: len(parts), Strategy: meta.Strategy, Type: s.cfg.StateDictType,
		Config: meta.Config, State: meta.State, ChunkBytes: s.chunk,
		Tensors: make([]manifestTensor, len(plan)),
	}
	if m.Type == "" {
		m.Type = Sharded
	}
	if len(m.State) == 0 {
		m.State = jsontext.Value("null")
	}
	for i, t := range plan {
		m.Tensors[i] = manifestTensor{Kind: t.Kind, Name: t.Name, DType: safetensors.TypeOf(t.DType), Shape: t.Shape}
	}
	for _, w := range parts {
		first := len(m.Files)
		m.Files = append(m.Files, w.Files...)
		for _, p := range w.Pieces {
			p.Piece.File += first
			if p.Piece.File < first || m.Type == Full {
				p.Piece.File = 0 // one file for all ranks, described by rank 0
			}
			t := &m.Tensors[p.Tensor]
			t.Pieces = append(t.Pieces, p.Piece)
		}
	}
	for _, t := range m.Tensors {
		slices.SortFunc(t.Pieces, func(a, b piece) int { return slices.Compare(a.Offsets, b.Offsets) })
	}
	return m
}

// abandon removes the files of a failed save and returns failure. Every rank has closed its files,
// unless ranks can no longer communicate.
func (s *Store) abandon(tmp string, failure error) error {
	if s.ranks.Rank() != 0 || tmp == "" {
		return failure
	}
	if err := s.fs.RemoveAll(tmp); err != nil {
		return errors.Join(failure, fmt.Errorf("checkpoint: remove %s: %w", tmp, err))
	}
	return failure
}
