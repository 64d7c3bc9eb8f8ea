package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"trireme/fault"
	"trireme/internal/filekind"
)

const parquetMagic = "PAR1"

var errParquet = errors.New("the Parquet file is damaged")

// readParquet reads the rows of a Parquet file, group by group, except groups that skip, called
// with their number of rows, passes over. The library panics on some damaged files; that becomes an
// error.
func (s *source) readParquet(file int, skip func(n int64) bool, f func(*entry) error) (err error) {
	name := s.files[file]
	in, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	defer in.Close()
	row, opened := int64(0), false
	var given error // of f, with its origin
	read := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errParquet, p)
			}
		}()
		p, err := openParquet(in)
		if err != nil {
			return err
		}
		opened = true
		skipGroup := func(n int64) bool {
			skipped := skip(n)
			if skipped {
				row += n
			}
			return skipped
		}
		return s.parquetRows(p, skipGroup, func(fields map[string]any) error {
			row++
			given = f(&entry{at: rowOf(file, row), fields: fields})
			return given
		})
	}
	err = read()
	where := name
	if opened && (row > 0 || !errors.Is(err, errParquet)) {
		where = rowOf(file, row+1).in(s.files)
	}
	switch {
	case given != nil:
		return given
	case err == nil:
		return nil
	case errors.Is(err, errParquet) && !fault.HasTry(err):
		return fault.Try(fmt.Errorf("data: %s: %w", where, err), "download or write the file again")
	default:
		return rowError(where, err)
	}
}

func (s *source) parquetRows(p *parquet.File, skip func(n int64) bool, f func(map[string]any) error) error {
	a, err := newAssembler(p.Root(), s.cleanString)
	if err != nil {
		return err
	}
	for _, group := range p.RowGroups() {
		if group.NumRows() == 0 || skip(group.NumRows()) { // an empty group's columns may have no page
			continue
		}
		if err := s.parquetGroup(group, a, float64(p.Size())/float64(p.NumRows()), f); err != nil {
			return err
		}
	}
	return nil
}

// openParquet reads and checks the footer of a file.
func openParquet(in *os.File) (*parquet.File, error) {
	st, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkParquet(in, in.Name(), st.Size()); err != nil {
		return nil, err
	}
	p, err := parquet.OpenFile(in, st.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(256<<10))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errParquet, err)
	}
	return p, checkGroups(p.Metadata())
}

// parquetRowCount returns the number of rows in the footer of a file.
func parquetRowCount(path string) (rows int64, err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on damaged files
			err = fault.Try(fmt.Errorf("data: %s: %w: %v", path, errParquet, p), "download or write the file again")
		}
	}()
	in, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("data: %w", err)
	}
	defer in.Close()
	p, err := openParquet(in)
	if err != nil {
		return 0, rowError(path, err)
	}
	return p.NumRows(), nil
}

// maxEmpty is the size up to which a file is checked for having no rows: then it is little more
// than its footer.
const maxEmpty = 64 << 10

// emptyParquet reports whether a file is intact and has no rows, as writers leave for an empty
// shard.
func emptyParquet(path string) (empty bool) {
	defer func() {
		if recover() != nil { // the library panics on damaged files: the reader reports it
			empty = false
		}
	}()
	in, err := os.Open(path)
	if err != nil {
		return false
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil || st.Size() > maxEmpty {
		return false
	}
	p, err := openParquet(in)
	return err == nil && p.NumRows() == 0
}

// checkGroups rejects an inconsistent footer, and LZ4, which the library silently reads as empty
// values.
func checkGroups(m *format.FileMetaData) error {
	rows := int64(0)
	for _, g := range m.RowGroups {
		rows += g.NumRows
	}
	if rows != m.NumRows {
		return fmt.Errorf("%w: its footer has %d rows, its row groups %d", errParquet, m.NumRows, rows)
	}
	for _, g := range m.RowGroups {
		for _, c := range g.Columns {
			if codec := c.MetaData.Codec; codec == format.Lz4Raw {
				return fault.Try(errors.New("it is compressed with LZ4, which is not supported"), "write it with zstd or snappy")
			}
		}
	}
	return nil
}

// parquetGroup reads the rows of a group; each counts as size bytes of the file.
func (s *source) parquetGroup(group parquet.RowGroup, a *assembler, size float64, f func(map[string]any) error) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	buf := make([]parquet.Row, 64)
	for want, got := group.NumRows(), int64(0); ; {
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			for _, v := range row {
				if k := v.Kind(); (k == parquet.ByteArray || k == parquet.FixedLenByteArray) && !v.IsNull() && int64(len(v.ByteArray())) > s.maxRow {
					return fault.Try(fmt.Errorf("a value has %s bytes, more than data.max_row_bytes %s", thousands(len(v.ByteArray())), thousands(int(s.maxRow))), "shorter rows, or %s", fault.Set("data.max_row_bytes", "N"))
				}
			}
			fields, err := a.row(row)
			if err != nil {
				return err
			}
			if err := f(fields); err != nil {
				return err
			}
		}
		got += int64(n)
		s.read.Add(int64(size * float64(n)))
		switch {
		case err == io.EOF && got != want:
			return fmt.Errorf("%w: a row group has %d rows, the footer says %d", errParquet, got, want)
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errParquet, err)
		case n == 0:
			return fmt.Errorf("%w: a group ends early", errParquet)
		}
	}
}

// checkParquet checks the start and end of a file before memory is allocated for its footer.
func checkParquet(in io.ReaderAt, name string, size int64) error {
	var head [4]byte
	var tail [8]byte
	first := make([]byte, filekind.HeadSize)
	if n, err := in.ReadAt(first, 0); err != nil && err != io.EOF {
		return err
	} else if k, ok := filekind.Detect(name, first[:n]); ok {
		return fault.Try(fmt.Errorf("it is %s, not Parquet", k.Name), "%s", k.Try)
	}
	if size < 12 {
		return fmt.Errorf("%w: it has %d bytes", errParquet, size)
	}
	if _, err := in.ReadAt(head[:], 0); err != nil {
		return err
	}
	if _, err := in.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	switch footer := int64(binary.LittleEndian.Uint32(tail[:])); {
	case string(head[:]) == "PARE":
		return fmt.Errorf("%w or encrypted", errParquet)
	case string(head[:]) != parquetMagic:
		return fmt.Errorf("%w or not Parquet: its first bytes are % x", errParquet, head)
	case string(tail[4:]) != parquetMagic:
		return fault.Try(fmt.Errorf("%w: truncated", errParquet), "download it again")
	case footer > size-12:
		return fmt.Errorf("%w: footer of %d bytes in a file of %d", errParquet, footer, size)
	default:
		b := make([]byte, footer)
		if _, err := in.ReadAt(b, size-8-footer); err != nil {
			return err
		}
		return checkThrift(b)
	}
}
