package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"trireme/fault"
	"trireme/internal/filekind"
)

// tokenArray is the layout of another program's token file: consecutive little-endian tokens,
// without document boundaries.
type tokenArray struct {
	at    int64 // offset of the first token
	width int   // bytes per token
	count int64
}

// Magic numbers of token files of llm.c, which begin with 256 int32: magic, version, number of
// tokens.
const (
	llmcHeader = 1024
	llmcMagic2 = 20240520 // version 1: uint16
	llmcMagic4 = 20240801 // version 7: uint32
)

const npyMagic = "\x93NUMPY"

// findArray detects the layout from the head of a file of size bytes: a NumPy array, an llm.c file
// or, named .bin, raw uint16 or uint32 as written by nanoGPT and its variants with larger
// vocabularies.
func findArray(name string, head []byte, size int64) (a tokenArray, err error) {
	le := binary.LittleEndian
	ext := strings.ToLower(filepath.Ext(name))
	kind, isKind := filekind.Detect(name, head[:min(len(head), filekind.HeadSize)])
	switch {
	case strings.HasPrefix(string(head), npyMagic):
		if a, err = npyArray(head); err != nil {
			return a, err
		}
	case len(head) >= 12 && le.Uint32(head) == llmcMagic2 && le.Uint32(head[4:]) == 1:
		a = tokenArray{llmcHeader, 2, int64(le.Uint32(head[8:]))}
	case len(head) >= 12 && le.Uint32(head) == llmcMagic4 && le.Uint32(head[4:]) == 7:
		a = tokenArray{llmcHeader, 4, int64(le.Uint32(head[8:]))}
	case isKind && kind.Sure:
		return a, fault.Try(fmt.Errorf("it is %s, not a token file", kind.Name), "%s", kind.Try)
	case ext == ".npy":
		return a, errors.New("not a NumPy array")
	case ext == ".bin" && size%4 == 0 && isWide(head):
		a = tokenArray{0, 4, size / 4}
	case ext == ".bin":
		a = tokenArray{0, 2, size / 2}
	default:
		return a, errors.New("not a token file")
	}
	if have := size - a.at; have < 0 || a.count != have/int64(a.width) || have%int64(a.width) != 0 {
		return a, fmt.Errorf("the file has %d bytes, expected %d tokens of %d bytes after a header of %d bytes", size, a.count, a.width, a.at)
	}
	return a, nil
}

// isWide reports whether a file without a header is uint32: all upper halves are below 8, as ids
// are below 2^19, and some lower half is not. As uint16, half the tokens would be below 8.
func isWide(head []byte) bool {
	const least = 64 // tokens; fewer may match by chance
	if len(head) < 4*least {
		return false
	}
	var low uint16
	for ; len(head) >= 4; head = head[4:] {
		if binary.LittleEndian.Uint16(head[2:]) >= 8 {
			return false
		}
		low = max(low, binary.LittleEndian.Uint16(head))
	}
	return low >= 8
}

var (
	npyType  = regexp.MustCompile(`'descr': '([<|=]?)([iu])([1248])'`)
	npyShape = regexp.MustCompile(`'shape': \((\d+),?\)`)
)

// npyArray parses the header of a .npy file, NumPy's format versions 1 to 3.
func npyArray(head []byte) (a tokenArray, err error) {
	if len(head) < 12 {
		return a, errors.New("the array's header is truncated")
	}
	at, n := 10, int(binary.LittleEndian.Uint16(head[8:]))
	if head[6] > 1 {
		at, n = 12, int(min(binary.LittleEndian.Uint32(head[8:]), 1<<20))
	}
	if at+n > len(head) {
		return a, errors.New("the array's header is truncated")
	}
	text := string(head[at : at+n])
	kind, shape := npyType.FindStringSubmatch(text), npyShape.FindStringSubmatch(text)
	if kind == nil || shape == nil {
		return a, fmt.Errorf("array header %.100q: tokens must be a 1-dimensional array of little-endian integers", strings.TrimSpace(text))
	}
	a.at, a.width = int64(at+n), int(kind[3][0]-'0')
	if a.width == 1 {
		return a, errors.New("array of 8-bit integers: tokens must have 16, 32 or 64 bits")
	}
	if a.count, err = strconv.ParseInt(shape[1], 10, 64); err != nil || a.count > 1<<40 {
		return a, fmt.Errorf("array of %s elements", shape[1])
	}
	return a, nil
}

// mapArray maps another program's token file as one document of unknown largest id.
func mapArray(f *os.File, head []byte, size int64) (*tokenFile, error) {
	a, err := findArray(f.Name(), head, size)
	if err != nil {
		return nil, err
	}
	if a.count == 0 {
		return nil, errors.New("it has no tokens")
	}
	t := &tokenFile{
		tokenInfo: tokenInfo{width: a.width, maxID: -1, tokens: a.count, docs: 1, longest: int(a.count), counted: a.count, maxClass: Ignored},
		first:     a.at, path: f.Name(), files: []string{f.Name()}, plain: true,
		ends: binary.LittleEndian.AppendUint64(nil, uint64(a.count)), origins: make([]byte, 8),
	}
	if t.data, t.unmap, err = mapFile(f, int(size)); err != nil {
		return nil, err
	}
	t.ids = t.data[t.first:]
	return t, nil
}
