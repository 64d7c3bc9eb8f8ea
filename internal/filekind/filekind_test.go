package filekind

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	zip := func(entry string) string {
		head := make([]byte, 30)
		copy(head, "PK\x03\x04")
		head[26] = byte(len(entry))
		return string(head) + entry + "more"
	}
	for _, c := range []struct {
		path, head, name, try string
		text, sure            bool
	}{
		{"x.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS", "git lfs pull", false, true},
		{"x", "ARROW1\x00\x00\xff\xff\xff\xff", "an Arrow file", "'x'", false, false},
		{"x", "FEA1\x00\x00\x00\x00", "Feather", "read_feather", false, true},
		{"d/x.arrow", "\xff\xff\xff\xff\xf0\x00\x00\x00\x10\x00\x00\x00", "datasets", "Dataset.from_file('d/x.arrow')", false, false},
		{"x.pkl", "\x80\x04\x95\n", "pickle", "read_pickle", false, false},
		{"x.bin", zip("archive/data.pkl"), "torch.save", "safetensors", false, true},
		{"x.xlsx", zip("docProps/app.xml"), "Microsoft Excel", "read_excel", false, false},
		{"x.npz", zip("a.npy"), "NumPy", "numpy.load", false, false},
		{"x.zip", zip("a.jsonl"), "a zip archive", "unzip x.zip", false, false},
		{"x.db", "SQLite format 3\x00", "SQLite", "sqlite3.connect('x.db')", false, true},
		{"x.h5", "\x89HDF\r\n\x1a\n", "HDF5", "read_hdf", false, true},
		{"x.pdf", "%PDF-1.7\n", "a PDF", "pdftotext x.pdf", false, false},
		{"x.tar", strings.Repeat("\x00", 257) + "ustar\x0000", "tar archive", "WebDataset", false, false},
		{"x.tfrecord", "\x0a\x00\x00\x00\x00\x00\x00\x00\xae\xa3\xbf\x3a\n\x08", "TFRecord", "JSON lines", false, false},
		{"x.json", "\xef\xbb\xbf \n<!DOCTYPE HTML>", "HTML", "download the file again", true, true},
		{"x.json", "<?xml version='1.0'?><Error>", "XML", "download the file again", true, true},
		{"x.txt", "\xff\xfea\x00", "UTF-16", "iconv", false, false},
	} {
		k, ok := Detect(c.path, []byte(c.head))
		if !ok || !strings.Contains(k.Name, c.name) || !strings.Contains(k.Try, c.try) || k.Text != c.text || k.Sure != c.sure {
			t.Errorf("%s %.20q: %+v, %v", c.path, c.head, k, ok)
		}
	}
	for _, head := range []string{"", "{", "text", "\xff\xff\xff\xff", "PAR1", "ORCHARD", "BZhou", "GGUF is", "\x80", "version 2", strings.Repeat("\x00", 512)} {
		if k, ok := Detect("x", []byte(head)); ok {
			t.Errorf("%.20q: %+v", head, k)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add("x.zip", []byte("PK\x03\x04"))
	f.Add("x", []byte("\xff\xff\xff\xff\xf0\x00\x00\x00\x10\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, path string, head []byte) {
		if k, ok := Detect(path, head); ok != (k.Name != "" && k.Try != "") {
			t.Fatalf("%+v, %v", k, ok)
		}
	})
}
