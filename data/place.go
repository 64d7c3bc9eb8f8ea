package data

import (
	"fmt"

	"trireme/fault"
)

// place is where a record or a document came from: a file of a list, and a line or a row in
// it, from 1; 0 is the whole file.
type place uint64

const (
	placeFile  = 41 // its bits are above
	placeByRow = 1 << 40
)

// lineOf is a line of file number file.
func lineOf(file int, line int64) place { return place(file)<<placeFile | place(line) }

// rowOf is a row of file number file.
func rowOf(file int, row int64) place { return place(file)<<placeFile | placeByRow | place(row) }

func (p place) file() int { return int(p >> placeFile) }

// rowError is what is wrong with a row, with what to do about it unless err says that itself.
func rowError(where string, err error) error {
	if fault.Tried(err) {
		return fmt.Errorf("data: %s: %w", where, err)
	}
	return fault.Try(fmt.Errorf("data: %s: %w", where, err), "mend or remove this row")
}

// in names the place.
func (p place) in(files []string) string {
	name, n := files[p.file()], p&(placeByRow-1)
	switch {
	case n == 0:
		return name
	case p&placeByRow != 0:
		return fmt.Sprintf("%s (row %d)", name, n)
	}
	return fmt.Sprintf("%s:%d", name, n)
}
