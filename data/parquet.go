package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

var errParquet = errors.New("the Parquet file is damaged")

// readParquet gives the rows of a Parquet file, group after group. The library panics on some
// damaged files; here that is an error.
func (s *source) readParquet(file int, f func(*entry) error) (err error) {
	name := s.files[file]
	in, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	defer in.Close()
	row := int64(0)
	var given error // by f, which says where itself
	read := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", errParquet, p)
			}
		}()
		return s.parquetRows(in, func(fields map[string]any) error {
			row++
			given = f(&entry{at: rowOf(file, row), fields: fields})
			return given
		})
	}
	switch err := read(); {
	case given != nil:
		return given
	case err == nil:
		return nil
	case row == 0 && errors.Is(err, errParquet):
		return fmt.Errorf("data: %s: %w. try: fetch or write it again", name, err)
	default:
		return rowError(rowOf(file, row+1).in(s.files), err)
	}
}

func (s *source) parquetRows(in *os.File, f func(map[string]any) error) error {
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if err := checkParquet(in, st.Size()); err != nil {
		return err
	}
	p, err := parquet.OpenFile(in, st.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(256<<10))
	if err != nil {
		return fmt.Errorf("%w: %w", errParquet, err)
	}
	if err := readable(p); err != nil {
		return err
	}
	a, err := newAssembler(p.Root(), s.cleanString)
	if err != nil {
		return err
	}
	for _, group := range p.RowGroups() {
		if err := s.parquetGroup(group, a, float64(st.Size())/float64(p.NumRows()), f); err != nil {
			return err
		}
	}
	return nil
}

// readable refuses what the library reads wrongly and without a word: values compressed with LZ4
// come out empty.
func readable(p *parquet.File) error {
	for _, g := range p.Metadata().RowGroups {
		for _, c := range g.Columns {
			if codec := c.MetaData.Codec; codec == format.Lz4Raw {
				return errors.New("its values are compressed with LZ4, which cannot be read here. try: write it with zstd or snappy")
			}
		}
	}
	return nil
}

// parquetGroup gives the rows of a group; each counts as size bytes of the file.
func (s *source) parquetGroup(group parquet.RowGroup, a *assembler, size float64, f func(map[string]any) error) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	buf := make([]parquet.Row, 64)
	for left := group.NumRows(); ; {
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			fields, err := a.row(row)
			if err != nil {
				return err
			}
			if err := f(fields); err != nil {
				return err
			}
		}
		left -= int64(n)
		s.read.Add(int64(size * float64(n)))
		switch {
		case err == io.EOF && left != 0:
			return fmt.Errorf("%w: a group has %d rows fewer than it should", errParquet, left)
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errParquet, err)
		case n == 0:
			return fmt.Errorf("%w: a group ends early", errParquet)
		}
	}
}

// checkParquet looks at the ends of a file, before memory is taken for what they tell of.
func checkParquet(in io.ReaderAt, size int64) error {
	var head [4]byte
	var tail [8]byte
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
		return fmt.Errorf("%w, or encrypted", errParquet)
	case string(head[:]) != "PAR1":
		return fmt.Errorf("%w, or none: its first bytes are % x", errParquet, head)
	case string(tail[4:]) != "PAR1":
		return fmt.Errorf("%w: it is cut short. try: fetch it again", errParquet)
	case footer > size-12:
		return fmt.Errorf("%w: it tells of a footer of %d bytes in a file of %d", errParquet, footer, size)
	default:
		b := make([]byte, footer)
		if _, err := in.ReadAt(b, size-8-footer); err != nil {
			return err
		}
		return checkThrift(b)
	}
}
