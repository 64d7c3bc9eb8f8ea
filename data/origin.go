package data

import (
	"fmt"

	"trireme/fault"
)

// origin is where a record or document comes from: a file of a list, and a line or row in it, from
// 1; 0 is the whole file.
type origin uint64

const (
	originFileShift = 41 // file number in the bits above
	originByRow     = 1 << 40
)

func lineOf(file int, line int64) origin { return origin(file)<<originFileShift | origin(line) }

func rowOf(file int, row int64) origin {
	return origin(file)<<originFileShift | originByRow | origin(row)
}

func (o origin) file() int { return int(o >> originFileShift) }

// rowError adds a row's origin to err, and what to try unless err has that.
func rowError(where string, err error) error {
	if fault.HasTry(err) {
		return fmt.Errorf("data: %s: %w", where, err)
	}
	return fault.Try(fmt.Errorf("data: %s: %w", where, err), "correct or remove this row")
}

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
