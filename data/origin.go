package data

import (
	"fmt"

	"trireme/fault"
)

// origin is where a record or a document came from: a file of a list, and a line or a row in
// it, from 1; 0 is the whole file.
type origin uint64

const (
	originFileShift = 41 // its bits are above
	originByRow     = 1 << 40
)

// lineOf is a line of file number file.
func lineOf(file int, line int64) origin { return origin(file)<<originFileShift | origin(line) }

// rowOf is a row of file number file.
func rowOf(file int, row int64) origin {
	return origin(file)<<originFileShift | originByRow | origin(row)
}

func (o origin) file() int { return int(o >> originFileShift) }

// rowError is what is wrong with a row, with what to do about it unless err says that itself.
func rowError(where string, err error) error {
	if fault.HasTry(err) {
		return fmt.Errorf("data: %s: %w", where, err)
	}
	return fault.Try(fmt.Errorf("data: %s: %w", where, err), "mend or remove this row")
}

// in names the place.
func (o origin) in(files []string) string {
	name, n := files[o.file()], o&(originByRow-1)
	switch {
	case n == 0:
		return name
	case o&originByRow != 0:
		return fmt.Sprintf("%s (row %d)", name, n)
	}
	return fmt.Sprintf("%s:%d", name, n)
}
