package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"trireme/checkpoint/safetensors"
	"trireme/internal/concurrent"
	"trireme/internal/rundir"
	"trireme/tensor"
)

// File names in a checkpoint directory.
const (
	manifestName = "manifest.json"
	commitName   = "COMMIT"
	fullName     = "state.safetensors"
)

const (
	formatName    = "trireme checkpoint"
	formatVersion = 3       // pieces of versions 1 and 2 are runs of elements; version 1 has no run ID
	maxManifest   = 1 << 30 // bytes
	maxEpoch      = 1 << 50
	chunkBytes    = 1 << 20 // per CRC; a load reads up to this much extra at each end
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Meta is the metadata of a checkpoint.
type Meta struct {
	Run       string // run ID, set by Save; empty for format version 1
	Step      int    // optimizer steps done
	Epoch     int    // of the world that saved (Claim), set by Save; 0 in those of older versions
	WorldSize int    // number of ranks that saved; set by Save
	Strategy  string // informational: any strategy loads it
	Config    string // the resolved configuration
	State     []byte // JSON, compacted: data position, schedule, random keys
}

// errNewer is wrapped by errors about valid checkpoints of a newer format.
var errNewer = errors.New("written by a newer version of trireme")

// manifest is manifest.json: the file and offset of every element of every tensor.
type manifest struct {
	Format     string           `json:"format"`
	Version    int              `json:"version"`
	Run        string           `json:"run,omitzero"`
	Step       int              `json:"step"`
	Epoch      int              `json:"epoch"`
	WorldSize  int              `json:"world_size"`
	Strategy   string           `json:"strategy"`
	Type       string           `json:"state_dict_type"`
	Config     string           `json:"config"`
	State      jsontext.Value   `json:"state"`
	ChunkBytes int              `json:"chunk_bytes"`
	HostSave   string           `json:"host_save,omitzero"` // in the memory of a host, with the elements that its ranks hold: the save, equal on all hosts
	Files      []manifestFile   `json:"files"`
	Tensors    []manifestTensor `json:"tensors"`

	digest string // of the file, in hexadecimal; set by verify
}

type manifestFile struct {
	Name        string `json:"name"`
	Size        int64  `json:"size"`
	HeaderBytes int64  `json:"header_bytes"` // including the 8-byte length
	HeaderCRC   uint32 `json:"header_crc32c"`
}

type manifestTensor struct {
	Kind   string           `json:"kind"`
	Name   string           `json:"name"`
	DType  safetensors.Type `json:"dtype"`
	Shape  tensor.Shape     `json:"shape"`
	Pieces []piece          `json:"pieces"` // hold each element once; ascending in versions 1 and 2
}

// piece is the location of a box of a tensor, or, in versions 1 and 2, of elements [First,
// First+Count).
type piece struct {
	File   int   `json:"file"`   // index into Files
	Offset int64 `json:"offset"` // in bytes from the file's start
	tensor.Box
	First int      `json:"first,omitzero"`
	Count int      `json:"count,omitzero"`
	CRC   []uint32 `json:"crc32c"` // of each ChunkBytes bytes from Offset on; the last may be shorter
}

// elems returns the number of elements.
func (p piece) elems() int {
	if p.Count > 0 {
		return p.Count
	}
	return p.Elems()
}

// boxes returns the boxes of a piece of a tensor of shape s, in order.
func (p piece) boxes(s tensor.Shape) []tensor.Box {
	if p.Count > 0 {
		return tensor.FullBox(s).Range(p.First, p.First+p.Count)
	}
	return []tensor.Box{p.Box}
}

func (t manifestTensor) key() string { return key(t.Kind, t.Name) }

// bytes returns the size of the data files.
func (m *manifest) bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

func (m *manifest) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: encode the manifest: %w", err)
	}
	return append(b, '\n'), nil
}

// commitRecord returns the content of COMMIT for a manifest.
func commitRecord(m *manifest, encoded []byte) []byte {
	b := fmt.Appendf(nil, "%s %d\nstep %d\nepoch %d\n%s %d bytes\n", formatName, m.Version, m.Step, m.Epoch, manifestName, len(encoded))
	return append(b, digestLine(encoded)...)
}

// committedEpoch returns the epoch in a commit record; 0 if there is none.
func committedEpoch(commit []byte) (epoch int) {
	var version, step int
	if n, _ := fmt.Sscanf(string(commit), formatName+" %d\nstep %d\nepoch %d\n", &version, &step, &epoch); n < 3 {
		return 0
	}
	return epoch
}

// digestLine is the last line of COMMIT.
func digestLine(encoded []byte) []byte {
	return fmt.Appendf(nil, "sha256 %x\n", sha256.Sum256(encoded))
}

// parseManifest decodes a manifest and checks that every element has exactly one location within a
// file. The input is untrusted.
func parseManifest(b []byte) (*manifest, error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil || head.Format != formatName {
		return nil, fmt.Errorf("%s is not a checkpoint manifest", manifestName)
	}
	switch {
	case head.Version > formatVersion:
		return nil, fmt.Errorf("%w: format %d, this program reads up to %d", errNewer, head.Version, formatVersion)
	case head.Version < 1:
		return nil, fmt.Errorf("%s has format version %d", manifestName, head.Version)
	}
	m := &manifest{}
	if err := json.Unmarshal(b, m, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s is not valid: %s", manifestName, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%s is inconsistent: %w", manifestName, err)
	}
	return m, nil
}

func (m *manifest) check() error {
	if m.Run != "" && !rundir.ValidID(m.Run) {
		return fmt.Errorf("invalid run ID %q", m.Run)
	}
	if m.Run != "" && m.Version < 2 {
		return fmt.Errorf("format version %d has no run ID", m.Version)
	}
	if m.Step < 0 || m.ChunkBytes <= 0 || m.ChunkBytes > 1<<30 || m.ChunkBytes%8 != 0 {
		return fmt.Errorf("invalid step %d or chunk size %d", m.Step, m.ChunkBytes)
	}
	if m.Epoch < 0 || m.Epoch > maxEpoch {
		return fmt.Errorf("invalid epoch %d", m.Epoch)
	}
	names := map[string]bool{}
	for _, f := range m.Files {
		if f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) || strings.ContainsAny(f.Name, "\\\x00") || names[f.Name] {
			return fmt.Errorf("invalid file name %q", f.Name)
		}
		if f.HeaderBytes < 8 || f.HeaderBytes > f.Size {
			return fmt.Errorf("file %q of %d bytes has a header of %d", f.Name, f.Size, f.HeaderBytes)
		}
		names[f.Name] = true
	}
	keys := map[string]bool{}
	for _, t := range m.Tensors {
		if keys[t.key()] {
			return fmt.Errorf("%s is listed twice", t.key())
		}
		keys[t.key()] = true
		if err := m.checkTensor(t); err != nil {
			return fmt.Errorf("%s: %w", t.key(), err)
		}
	}
	return nil
}

func (m *manifest) checkTensor(t manifestTensor) error {
	dt, ok := t.DType.DType()
	if !ok || t.Kind == "" || t.Name == "" || !validShape(t.Shape, dt) {
		return fmt.Errorf("invalid dtype or shape %s%v", t.DType, t.Shape)
	}
	if err := m.checkPieces(t); err != nil {
		return err
	}
	for _, p := range t.Pieces {
		if p.File < 0 || p.File >= len(m.Files) {
			return fmt.Errorf("file index %d, but %d files", p.File, len(m.Files))
		}
		f, size := m.Files[p.File], int64(p.elems())*int64(dt.Size())
		if p.Offset < f.HeaderBytes || p.Offset > math.MaxInt64-size || p.Offset+size > f.Size {
			return fmt.Errorf("%d bytes at offset %d are outside %s", size, p.Offset, f.Name)
		}
		if int64(len(p.CRC)) != (size-1)/int64(m.ChunkBytes)+1 {
			return errors.New("the number of checksums is not that of chunks")
		}
	}
	return nil
}

// checkPieces checks that the pieces hold each element once.
func (m *manifest) checkPieces(t manifestTensor) error {
	runs := m.Version < 3
	at, elems := 0, t.Shape.Elems()
	for _, p := range t.Pieces {
		switch {
		case runs && len(p.Offsets)+len(p.Sizes) > 0 || !runs && (p.First != 0 || p.Count != 0):
			return fmt.Errorf("a piece does not match format version %d", m.Version)
		case runs && (p.First != at || p.Count <= 0 || p.Count > elems-at):
			return fmt.Errorf("elements [%d,%d) follow element %d of %d", p.First, p.First+p.Count, at, elems)
		case !runs && (!p.In(t.Shape) || p.Elems() == 0):
			return fmt.Errorf("piece %v + %v is outside %v%v", p.Offsets, p.Sizes, t.DType, t.Shape)
		case p.elems() > elems-at:
			return errors.New("elements are stored twice")
		}
		at += p.elems()
	}
	switch {
	case m.HostSave != "":
		return nil
	case at != elems:
		return fmt.Errorf("%d of %d elements are missing", elems-at, elems)
	case !runs && !tiles(t.Shape, t.Pieces):
		return errors.New("some elements are stored twice, others are missing")
	}
	return nil
}

var errUncommitted = errors.New("no commit record")

// verify checks everything but the tensors' bytes: the commit record, the manifest, and every
// file's size and header. Each error is one clause without a prefix.
func verify(fs fileStore, dir string) (*manifest, error) {
	commit, err := readAll(fs, join(dir, commitName), 4096)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errUncommitted, err)
	}
	b, err := readAll(fs, join(dir, manifestName), maxManifest)
	if err != nil {
		return nil, fmt.Errorf("no manifest (%w)", err)
	}
	// The last line of COMMIT is the same in every version.
	if !bytes.HasSuffix(commit, digestLine(b)) {
		return nil, fmt.Errorf("%s does not match %s", commitName, manifestName)
	}
	m, err := parseManifest(b)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(commit, commitRecord(m, b)) {
		return nil, fmt.Errorf("%s does not match %s", commitName, manifestName)
	}
	if err := m.verifyFiles(fs, dir); err != nil {
		return nil, err
	}
	m.digest = fmt.Sprintf("%x", sha256.Sum256(b))
	return m, nil
}

// verifyFiles compares the size and the header of every file.
func (m *manifest) verifyFiles(fs fileStore, dir string) error {
	return concurrent.Each(filesAtOnce(fs), len(m.Files), func(_, i int) error {
		if err := verifyFile(fs, dir, m.Files[i]); err != nil {
			return fmt.Errorf("%s %w", m.Files[i].Name, err)
		}
		return nil
	})
}

func verifyFile(fs fileStore, dir string, want manifestFile) error {
	f, err := fs.Open(join(dir, want.Name))
	if err != nil {
		return fmt.Errorf("cannot be opened (%w)", err)
	}
	defer f.Close()
	size, err := f.Size()
	switch {
	case err != nil:
		return err
	case size < want.Size:
		return fmt.Errorf("is short by %d of %d bytes", want.Size-size, want.Size)
	case size > want.Size:
		return fmt.Errorf("is %d bytes too long", size-want.Size)
	}
	header := make([]byte, want.HeaderBytes)
	if n, err := f.ReadAt(header, 0); n < len(header) {
		return fmt.Errorf("cannot be read (%w)", err)
	}
	if crc32.Checksum(header, castagnoli) != want.HeaderCRC {
		return errors.New("has a damaged header")
	}
	return nil
}

func readAll(fs fileStore, path string, limit int64) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, size, limit)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	return b, nil
}
