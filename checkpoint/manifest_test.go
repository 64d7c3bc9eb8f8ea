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
		{"version", func(m *manifest, p *piece) { m.Version = 4 }, "written by a newer version of this program: format 4, this program reads up to 3"},
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
		{"beyond the tensor", func(m *manifest, p *piece) { p.Sizes[0]++ }, "has no piece [0] + [4]"},
		{"hole", func(m *manifest, p *piece) { p.Offsets[0]++; p.Sizes[0]-- }, "1 of 3 elements are nowhere"},
		{"nothing", func(m *manifest, p *piece) { p.Sizes[0] = 0 }, "has no piece [0] + [0]"},
		{"no such file", func(m *manifest, p *piece) { p.File = 1 }, "file 1 of 1"},
		{"negative file", func(m *manifest, p *piece) { p.File = -1 }, "file -1"},
		{"in the header", func(m *manifest, p *piece) { p.Offset = 0 }, "are not in"},
		{"beyond the file", func(m *manifest, p *piece) { p.Offset += 1000 }, "are not in"},
		{"wraps", func(m *manifest, p *piece) { p.Offset = 1<<63 - 1 }, "are not in"},
		{"a run", func(m *manifest, p *piece) { p.Count = 1 }, "no piece of format 3"},
		{"an older format", func(m *manifest, p *piece) { m.Version = 2 }, "no piece of format 2"},
		{"twice", func(m *manifest, p *piece) { m.Tensors[0].Pieces = append(m.Tensors[0].Pieces, *p) }, "placed twice"},
		{"too few offsets", func(m *manifest, p *piece) { p.Offsets = p.Offsets[1:] }, "has no piece [] + [3]"},
		{"negative offset", func(m *manifest, p *piece) { p.Offsets[0] = -1 }, "has no piece [-1]"},
		{"offset that wraps", func(m *manifest, p *piece) { p.Offsets[0] = 1<<63 - 1 }, "has no piece [9223372036854775807]"},
		{"size that wraps", func(m *manifest, p *piece) { p.Sizes[0] = 1<<63 - 1 }, "has no piece [0] + [9223372036854775807]"},
		{"dimensions", func(m *manifest, p *piece) { m.Tensors[0].Shape = make(tensor.Shape, 65) }, "cannot be"},
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

// TestLyingRuns is TestLyingManifests of what a format of runs says.
func TestLyingRuns(t *testing.T) {
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
		{"a box", func(p []piece) { p[0].Box = tensor.FullBox(tensor.Shape{16, 12}) }, "no piece of format 2"},
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

// TestTiles: whether boxes, with as many elements as the tensor, hold each once is found as by
// looking at each element.
func TestTiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	yes, no := 0, 0
	for range 20000 {
		s := tensor.Shape{1 + rng.IntN(4), 1 + rng.IntN(4), 1 + rng.IntN(3)}[:1+rng.IntN(3)]
		all := tensor.FullBox(s)
		boxes := guillotine(all, rng, 3)
		if rng.IntN(2) == 0 { // moved, or of another cut
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

// TestManyPieces: a manifest of very many pieces, of which as many as can be lie beside one another
// in every dimension, is judged in time that grows with their number.
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
