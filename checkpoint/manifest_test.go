package checkpoint

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"trireme/tensor"
)

// TestInvalidManifests: the digest matches, the content is invalid.
func TestInvalidManifests(t *testing.T) {
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
		{"format", func(m *manifest, p *piece) { m.Format = "zip" }, "is not a checkpoint manifest"},
		{"run", func(m *manifest, p *piece) { m.Run = "a\x1b[2J" }, "run ID \"a\\x1b[2J\""},
		{"version", func(m *manifest, p *piece) { m.Version = 4 }, "written by a newer version of trireme: format 4, this program reads up to 3"},
		{"step", func(m *manifest, p *piece) { m.Step = -1 }, "step -1"},
		{"no chunks", func(m *manifest, p *piece) { m.ChunkBytes = 0 }, "chunk size 0"},
		{"huge chunks", func(m *manifest, p *piece) { m.ChunkBytes = 1 << 40 }, "chunk size"},
		{"path", func(m *manifest, p *piece) { m.Files[0].Name = "../x" }, `file name "../x"`},
		{"dot", func(m *manifest, p *piece) { m.Files[0].Name = ".." }, `file name ".."`},
		{"file twice", func(m *manifest, p *piece) { m.Files = append(m.Files, m.Files[0]) }, "file"},
		{"header", func(m *manifest, p *piece) { m.Files[0].HeaderBytes = 1 << 50 }, "has a header of"},
		{"tensor twice", func(m *manifest, p *piece) { m.Tensors = append(m.Tensors, m.Tensors[0]) }, "is listed twice"},
		{"type", func(m *manifest, p *piece) { m.Tensors[0].DType = "BOOL" }, "invalid dtype or shape"},
		{"negative", func(m *manifest, p *piece) { m.Tensors[0].Shape[0] *= -1 }, "invalid dtype or shape"},
		{"too large", func(m *manifest, p *piece) { m.Tensors[0].Shape = tensor.Shape{1 << 40, 1 << 40} }, "invalid dtype or shape"},
		{"end missing", func(m *manifest, p *piece) { m.Tensors[0].Shape[0]++ }, "are missing"},
		{"no pieces", func(m *manifest, p *piece) { m.Tensors[0].Pieces = nil }, "are missing"},
		{"beyond the tensor", func(m *manifest, p *piece) { p.Sizes[0]++ }, "piece [0] + [4]"},
		{"hole", func(m *manifest, p *piece) { p.Offsets[0]++; p.Sizes[0]-- }, "1 of 3 elements are missing"},
		{"nothing", func(m *manifest, p *piece) { p.Sizes[0] = 0 }, "piece [0] + [0]"},
		{"no such file", func(m *manifest, p *piece) { p.File = 1 }, "file index 1, but 1 files"},
		{"negative file", func(m *manifest, p *piece) { p.File = -1 }, "file index -1"},
		{"in the header", func(m *manifest, p *piece) { p.Offset = 0 }, "are outside"},
		{"beyond the file", func(m *manifest, p *piece) { p.Offset += 1000 }, "are outside"},
		{"wraps", func(m *manifest, p *piece) { p.Offset = 1<<63 - 1 }, "are outside"},
		{"a run", func(m *manifest, p *piece) { p.Count = 1 }, "does not match format version 3"},
		{"an older format", func(m *manifest, p *piece) { m.Version = 2 }, "does not match format version 2"},
		{"twice", func(m *manifest, p *piece) { m.Tensors[0].Pieces = append(m.Tensors[0].Pieces, *p) }, "stored twice"},
		{"too few offsets", func(m *manifest, p *piece) { p.Offsets = p.Offsets[1:] }, "piece [] + [3]"},
		{"negative offset", func(m *manifest, p *piece) { p.Offsets[0] = -1 }, "piece [-1]"},
		{"offset that wraps", func(m *manifest, p *piece) { p.Offsets[0] = 1<<63 - 1 }, "piece [9223372036854775807]"},
		{"size that wraps", func(m *manifest, p *piece) { p.Sizes[0] = 1<<63 - 1 }, "piece [0] + [9223372036854775807]"},
		{"dimensions", func(m *manifest, p *piece) { m.Tensors[0].Shape = make(tensor.Shape, 65) }, "invalid dtype or shape"},
		{"checksums", func(m *manifest, p *piece) { p.CRC = p.CRC[1:] }, "is not that of chunks"},
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
		t.Error("an unknown member was ignored")
	}
}

// TestInvalidRuns is TestInvalidManifests for versions 1 and 2.
func TestInvalidRuns(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(olderFormats[1], manifestName))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func(p []piece)
		want  string
	}{
		{"right", func(p []piece) {}, ""},
		{"nothing", func(p []piece) { p[0].Count = 0 }, "elements [0,0) follow element 0 of 192"},
		{"negative", func(p []piece) { p[1].Count = -64 }, "elements [64,0) follow element 64"},
		{"wraps", func(p []piece) { p[1].Count = 1<<63 - 1 }, "follow element 64"},
		{"hole", func(p []piece) { p[1].First++; p[1].Count-- }, "elements [65,128) follow element 64"},
		{"twice", func(p []piece) { p[1].First--; p[1].Count++ }, "elements [63,128) follow element 64"},
		{"beyond", func(p []piece) { p[2].Count++ }, "elements [128,193) follow element 128"},
		{"a box", func(p []piece) { p[0].Box = tensor.FullBox(tensor.Shape{16, 12}) }, "does not match format version 2"},
	} {
		m, err := parseManifest(data)
		if err != nil {
			t.Fatal(err)
		}
		c.spoil(m.Tensors[0].Pieces)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseManifest(b)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, without %q", c.name, err, c.want)
		}
	}
}

// TestTiles compares tiles with a check of each element.
func TestTiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	yes, no := 0, 0
	for range 20000 {
		s := tensor.Shape{1 + rng.IntN(4), 1 + rng.IntN(4), 1 + rng.IntN(3)}[:1+rng.IntN(3)]
		all := tensor.FullBox(s)
		boxes := guillotine(all, rng, 3)
		if rng.IntN(2) == 0 { // moved, or from another split
			other := guillotine(all, rng, 3)
			i := rng.IntN(len(boxes))
			boxes[i] = other[rng.IntN(len(other))]
		}
		var pieces []piece
		count := make([]int, s.Elems())
		total, want := 0, true
		for _, b := range boxes {
			pieces = append(pieces, piece{Box: b})
			total += b.Elems()
			for e := range count {
				if _, in := b.Intersect(all.Range(e, e+1)[0]); in {
					count[e]++
				}
			}
		}
		if total != len(count) {
			continue
		}
		for _, n := range count {
			want = want && n == 1
		}
		if got := tiles(s, pieces); got != want {
			t.Fatalf("%v in %v: %t", boxes, s, got)
		}
		if want {
			yes++
		} else {
			no++
		}
	}
	if yes == 0 || no == 0 {
		t.Errorf("%d tilings and %d others", yes, no)
	}
}

// TestManyPieces: checking a manifest takes time linear in its number of pieces.
func TestManyPieces(t *testing.T) {
	const n = 1 << 18
	s := tensor.Shape{n, 2 * n}
	m := &manifest{Version: formatVersion, ChunkBytes: 1 << 30, Files: []manifestFile{{Name: "x", Size: 1 << 62, HeaderBytes: 8}}}
	var ps []piece
	for i := range n {
		ps = append(ps, piece{Offset: 8, Box: tensor.Box{Offsets: []int{i, 0}, Sizes: tensor.Shape{1, n}}},
			piece{Offset: 8, Box: tensor.Box{Offsets: []int{0, n + i}, Sizes: tensor.Shape{n, 1}}})
	}
	x := manifestTensor{Shape: s, Pieces: ps}
	if err := m.checkPieces(x); err != nil {
		t.Error(err)
	}
	ps[7].Offsets[1]++
	if err := m.checkPieces(x); err == nil {
		t.Error("two of them overlap")
	}
}
