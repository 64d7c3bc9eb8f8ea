package checkpoint

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"trireme/tensor"
)

// TestLyingManifests: a digest only says that a manifest is its author's.
func TestLyingManifests(t *testing.T) {
	fs := newFaultFS()
	if _, err := saveAlone(t, fs, "out", Config{}, smallTruth(1), 1); err != nil {
		t.Fatal(err)
	}
	data := fs.find("out/checkpoints/step-1/" + manifestName).data
	for _, c := range []struct {
		name  string
		spoil func(m *manifest, p *piece)
		want  string
	}{
		{"right", func(m *manifest, p *piece) {}, ""},
		{"format", func(m *manifest, p *piece) { m.Format = "zip" }, "is not the manifest"},
		{"run", func(m *manifest, p *piece) { m.Run = "a\x1b[2J" }, "run \"a\\x1b[2J\""},
		{"version", func(m *manifest, p *piece) { m.Version = 3 }, "written by a newer version of this program: format 3, this program reads up to 2"},
		{"step", func(m *manifest, p *piece) { m.Step = -1 }, "step -1"},
		{"no chunks", func(m *manifest, p *piece) { m.ChunkBytes = 0 }, "chunks of 0"},
		{"huge chunks", func(m *manifest, p *piece) { m.ChunkBytes = 1 << 40 }, "chunks of"},
		{"path", func(m *manifest, p *piece) { m.Files[0].Name = "../x" }, `file "../x"`},
		{"dot", func(m *manifest, p *piece) { m.Files[0].Name = ".." }, `file ".."`},
		{"file twice", func(m *manifest, p *piece) { m.Files = append(m.Files, m.Files[0]) }, "file"},
		{"header", func(m *manifest, p *piece) { m.Files[0].HeaderBytes = 1 << 50 }, "has a header of"},
		{"tensor twice", func(m *manifest, p *piece) { m.Tensors = append(m.Tensors, m.Tensors[0]) }, "is there twice"},
		{"type", func(m *manifest, p *piece) { m.Tensors[0].DType = "BOOL" }, "cannot be"},
		{"negative", func(m *manifest, p *piece) { m.Tensors[0].Shape[0] *= -1 }, "cannot be"},
		{"too large", func(m *manifest, p *piece) { m.Tensors[0].Shape = tensor.Shape{1 << 40, 1 << 40} }, "cannot be"},
		{"end missing", func(m *manifest, p *piece) { m.Tensors[0].Shape[0]++ }, "are nowhere"},
		{"no pieces", func(m *manifest, p *piece) { m.Tensors[0].Pieces = nil }, "are nowhere"},
		{"beyond the tensor", func(m *manifest, p *piece) { p.Count++ }, "follow element 0"},
		{"hole", func(m *manifest, p *piece) { p.First++; p.Count-- }, "follow element 0"},
		{"nothing", func(m *manifest, p *piece) { p.Count = 0 }, "follow element 0"},
		{"no such file", func(m *manifest, p *piece) { p.File = 1 }, "file 1 of 1"},
		{"negative file", func(m *manifest, p *piece) { p.File = -1 }, "file -1"},
		{"in the header", func(m *manifest, p *piece) { p.Offset = 0 }, "are not in"},
		{"beyond the file", func(m *manifest, p *piece) { p.Offset += 1000 }, "are not in"},
		{"wraps", func(m *manifest, p *piece) { p.Offset = 1<<63 - 1 }, "are not in"},
		{"checksums", func(m *manifest, p *piece) { p.CRC = p.CRC[1:] }, "as many as its chunks"},
	} {
		m, err := parseManifest(data)
		if err != nil {
			t.Fatal(err)
		}
		c.spoil(m, &m.Tensors[0].Pieces[0])
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseManifest(b)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: the error is %v, without %q", c.name, err, c.want)
		}
	}
	if _, err := parseManifest([]byte(strings.Replace(string(data), `"epoch"`, `"more":1,"epoch"`, 1))); err == nil {
		t.Error("a member that is not known was ignored")
	}
}
