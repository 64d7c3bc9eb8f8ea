// Package filekind detects files of other programs by their first bytes, so that an error can name the
// format and how to convert it.
package filekind

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
)

// HeadSize is the number of bytes that Detect reads.
const HeadSize = 512

// Kind is a file format.
type Kind struct {
	Name string // "a PDF"
	Try  string // how to convert it: a command or an instruction
	Text bool   // it is text, and a reader of any text may accept it
	Sure bool   // long enough to exclude a coincidence, even in binary data
}

// magic is the first bytes of a format, which no text starts with. %s in try is the file's path.
type magic struct {
	bytes, name, try string
}

var magics = []magic{
	{"version https://git-lfs.github.com/spec/", "a Git LFS pointer, not the file itself", "git lfs pull"},
	{"\x1f\x8b", "gzip", "gunzip %s"},
	{"\x28\xb5\x2f\xfd", "zstd", "unzstd %s"},
	{"\xfd7zXZ\x00", "xz", "unxz %s"},
	{"\x04\x22\x4d\x18", "lz4", "unlz4 %s"},
	{"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x %s"},
	{"Rar!\x1a\x07", "a RAR archive", "unrar x %s"},
	{"ARROW1", "an Arrow file", `python -c "import pyarrow.feather as f, pyarrow.parquet as p; p.write_table(f.read_table('%s'), 'data.parquet')"`},
	{"FEA1\x00\x00\x00\x00", "a Feather file", `python -c "import pandas; pandas.read_feather('%s').to_parquet('data.parquet')"`},
	{"SQLite format 3\x00", "an SQLite database", `python -c "import sqlite3, pandas; pandas.read_sql('select * from TABLE', sqlite3.connect('%s')).to_parquet('data.parquet')"`},
	{"\x89HDF\r\n\x1a\n", "an HDF5 file", `python -c "import pandas; pandas.read_hdf('%s').to_parquet('data.parquet')"`},
	{"Obj\x01", "an Avro file", "write it as Parquet or JSON lines"},
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a Microsoft Office document", "save it as CSV or text"},
	{"%PDF-", "a PDF", "pdftotext %s"},
	{"{\\rtf", "a rich text document", "save it as plain text"},
	{"GGUF\x02\x00\x00\x00", "a GGUF model", "the model's directory with config.json and safetensors"},
	{"GGUF\x03\x00\x00\x00", "a GGUF model", "the model's directory with config.json and safetensors"},
	{"\x7fELF", "a program", "another file"},
	{"\x89PNG", "a picture", "another file"},
	{"\xff\xd8\xff", "a picture", "another file"},
	{"\xff\xfe", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 %s"},
	{"\xfe\xff", "text in UTF-16", "iconv -f UTF-16 -t UTF-8 %s"},
}

// Detect returns the format of a file by its first bytes, up to HeadSize of them.
func Detect(path string, head []byte) (Kind, bool) {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.bytes)) {
			k := kind(m.name, m.try, path)
			k.Sure = len(m.bytes) >= 8
			return k, true
		}
	}
	switch {
	case len(head) > 3 && string(head[:3]) == "BZh" && '1' <= head[3] && head[3] <= '9':
		return kind("bzip2", "bunzip2 %s", path), true
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return detectZip(path, head), true
	case isArrowStream(head):
		return kind("an Arrow file of Hugging Face datasets", `python -c "import datasets; datasets.Dataset.from_file('%s').to_parquet('data.parquet')"`, path), true
	case len(head) > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5:
		return kind("a Python pickle", `python -c "import pandas; pandas.DataFrame(pandas.read_pickle('%s')).to_parquet('data.parquet')", if you trust it: a pickle can run any program`, path), true
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return kind("a tar archive", "tar -xf %s, then convert its contents to JSON lines or Parquet (WebDataset shards are not supported)", path), true
	case isTFRecord(head):
		return kind("a TFRecord file", "write its examples as JSON lines or Parquet", path), true
	}
	text := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	switch {
	case bytes.HasPrefix(text, []byte("<!doctype html")), bytes.HasPrefix(text, []byte("<html")):
		return Kind{"an HTML page, perhaps a saved server error", "download the file again (curl -fL, or with a token)", true, true}, true
	case bytes.HasPrefix(text, []byte("<?xml")):
		return Kind{"XML, perhaps a saved server error", "download the file again", true, true}, true
	}
	return Kind{}, false
}

func kind(name, try, path string) Kind {
	if strings.Contains(try, "%s") {
		try = fmt.Sprintf(try, path)
	}
	return Kind{Name: name, Try: try}
}

// detectZip distinguishes zip archives by the name of their first entry.
func detectZip(path string, head []byte) Kind {
	entry := ""
	if len(head) >= 30 {
		n := int(binary.LittleEndian.Uint16(head[26:]))
		entry = string(head[30:min(len(head), 30+n)])
	}
	ext := strings.ToLower(filepath.Ext(path))
	switch {
	case strings.HasSuffix(entry, "/data.pkl"), strings.HasPrefix(entry, "archive/"), ext == ".pt", ext == ".pth":
		k := kind("a torch.save file", "torch.load in Python, then save as JSON lines, Parquet or safetensors", path)
		k.Sure = true
		return k
	case ext == ".xlsx":
		return kind("a Microsoft Excel sheet", `python -c "import pandas; pandas.read_excel('%s').to_csv('data.csv', index=False)"`, path)
	case entry == "[Content_Types].xml", strings.HasPrefix(entry, "docProps/"), ext == ".docx":
		return kind("a Microsoft Office document", "save it as CSV or text", path)
	case strings.HasSuffix(entry, ".npy"), ext == ".npz":
		return kind("an archive of NumPy arrays", `python -c "import numpy; numpy.save('tokens.npy', numpy.load('%s')['NAME'])"`, path)
	}
	return kind("a zip archive", "unzip %s", path)
}

// isArrowStream reports whether a file is an Arrow IPC stream: a marker, the length of the first message,
// and the offset of its table.
func isArrowStream(head []byte) bool {
	if len(head) < 12 || binary.LittleEndian.Uint32(head) != 0xffffffff {
		return false
	}
	length, table := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
	return length%8 == 0 && length > 0 && length < 1<<28 && table >= 4 && table < length && table%4 == 0
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// isTFRecord reports whether a file starts with a record length and its checksum.
func isTFRecord(head []byte) bool {
	if len(head) < 12 {
		return false
	}
	sum := crc32.Checksum(head[:8], castagnoli)
	return binary.LittleEndian.Uint32(head[8:]) == (sum>>15|sum<<17)+0xa282ead8
}
