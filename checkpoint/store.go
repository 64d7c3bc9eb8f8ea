package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"trireme/checkpoint/safetensors"
	"trireme/internal/rundir"
	"trireme/tensor"
)

// Store is the checkpoint directory of one run, of a file system or an object store, as one rank sees it. All ranks call Save and Resume
// in the same order, each from one goroutine.
type Store struct {
	dir       string
	run       string // run ID; empty until resumed or first saved
	cfg       Config
	ranks     ProcessGroup
	memory    memory
	fs        storage
	chunk     int
	protected int // step of the checkpoint that retain keeps; -1 for none
	epoch     int // of this world (Claim); 0: unknown

	// leader is the rank that makes, commits and deletes the directories that this rank writes to: 0, or in the
	// memory of hosts the first rank of this one.
	leader int
	host   *hostMemory  // nil: not in the memory of hosts
	copied atomic.Int64 // the step of the checkpoint that is being copied, plus 1; 0: none
	good   int          // the newest step that all hosts have in memory; -1 for none
}

// leads reports whether this rank is a leader.
func (s *Store) leads() bool { return s.ranks.Rank() == s.leader }

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
	dir := cfg.Directory(outputDir)
	if err := cfg.Check(outputDir, ranks.Size()); err != nil {
		return nil, err
	}
	at, err := storageAt(dir)
	if err != nil {
		return nil, err
	}
	return &Store{dir: dir, run: run, cfg: cfg.Disk(), ranks: ranks, memory: memory{device}, fs: at, chunk: chunkBytes, protected: -1, good: -1}, nil
}

// Protect excludes the checkpoint of a step from deletion. It replaces an earlier call.
func (s *Store) Protect(step int) { s.protected = step }

// Dir returns the checkpoint directory.
func (s *Store) Dir() string { return s.dir }

// SaveResult is the result of Save. It is equal on all ranks except for Notices, which only rank 0
// has.
type SaveResult struct {
	Path    string
	Bytes   int64    // of all data files
	Kept    int64    // bytes of them that an interrupted copy had sent (StartCopy)
	Written Written  // how rank 0 wrote
	Notices []string // problems that did not fail the save: old checkpoints that could not be deleted
}

// proposal is a rank's input to a save.
type proposal struct {
	Dir  string `json:"dir"` // of the attempt, from rank 0
	Step int    `json:"step"`
	Type string `json:"type"`
	Held []held `json:"held"`

	Leader int   `json:"leader,omitzero"`
	Meta   *Meta `json:"meta,omitzero"` // rank 0's, for the leaders
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

// begin removes unfinished saves and starts an attempt.
func (s *Store) begin(ctx context.Context, meta Meta) (string, error) {
	if meta.Step < 0 {
		return "", fmt.Errorf("checkpoint: invalid step %d", meta.Step)
	}
	if len(meta.State) > 0 && !jsontext.Value(meta.State).IsValid() {
		return "", errors.New("checkpoint: the training state to save is not JSON")
	}
	if s.run == "" {
		s.run = rundir.NewID()
	}
	if err := s.checkEpoch(s.fs.within(ctx)); err != nil {
		return "", err
	}
	if s.host != nil {
		if err := s.removeAllBut(s.good); err != nil {
			return "", err
		}
	}
	return s.fs.within(ctx).begin(s.dir, s.run, meta.Step)
}

// writer returns the writer of this rank's parts. It writes with the ranks that have the same leader.
func (s *Store) writer(fs fileStore, tmp string, items []Item, all []proposal) (*writer, error) {
	world := make([][]held, len(all))
	for rank, p := range all {
		if p.Step != all[0].Step || p.Type != all[0].Type {
			return nil, fmt.Errorf("checkpoint: rank %d saves step %d as %q, rank 0 step %d as %q", rank, p.Step, p.Type, all[0].Step, all[0].Type)
		}
		if p.Leader == s.leader {
			world[rank] = p.Held
		}
	}
	plan, err := plan(world, s.host != nil)
	if err != nil {
		return nil, err
	}
	w := &writer{fs: fs, dir: tmp, rank: s.ranks.Rank(), memory: s.memory, chunk: s.chunk, items: items, plan: plan, shared: s.cfg.StateDictType == Full && s.ranks.Size() > 1}
	return w, w.lay(s.cfg.StateDictType)
}

// commit commits the data that all ranks have synced.
func (s *Store) commit(ctx context.Context, tmp, hostSave string, meta Meta, plan []planned, parts []written) (saved SaveResult, err error) {
	m := s.manifest(hostSave, meta, plan, parts)
	if err := m.check(); err != nil {
		return SaveResult{}, fmt.Errorf("checkpoint: the ranks' files are inconsistent: %w", err)
	}
	b, err := m.encode()
	if err != nil {
		return SaveResult{}, err
	}
	fs := s.fs.within(ctx)
	if err := m.verifyFiles(fs, tmp); err != nil {
		return SaveResult{}, fmt.Errorf("checkpoint: rank 0 cannot see another rank's file: %s: %w; %s", tmp, err, sameDirectory)
	}
	if err := writeSmall(fs, join(tmp, manifestName), b); err != nil {
		return SaveResult{}, err
	}
	if err := s.checkEpoch(fs); err != nil {
		return SaveResult{}, err
	}
	saved.Bytes = m.bytes()
	saved.Path, saved.Notices, err = fs.publish(s.dir, tmp, meta.Step, s.run, commitRecord(m, b))
	return saved, err
}

// manifest merges what the ranks wrote.
func (s *Store) manifest(hostSave string, meta Meta, plan []planned, parts []written) *manifest {
	m := &manifest{
		Format: formatName, Version: formatVersion, Run: s.run, Step: meta.Step, Epoch: s.epoch,
		WorldSize: len(parts), Strategy: meta.Strategy, Type: s.cfg.StateDictType, HostSave: hostSave,
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
// unless ranks can no longer communicate. ctx is that of the save, which may have ended.
func (s *Store) abandon(ctx context.Context, tmp string, failure error) error {
	if !s.leads() || tmp == "" {
		return failure
	}
	limit := cleanUp
	if ctx.Err() != nil {
		limit = shortCleanUp
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errLeft)
	defer cancel()
	return alsoFailed(failure, s.fs.within(ctx).abandon(tmp))
}

// Limits of the time in which a failed save is removed from an object store, and one that was interrupted. The next save
// removes the rest.
const (
	cleanUp      = 30 * time.Second
	shortCleanUp = time.Second
)

var errLeft = errors.New("the store did not answer in time: the next save removes what is left")
