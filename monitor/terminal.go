package monitor

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Terminal is what may be done on the terminal that a View draws on.
type Terminal struct {
	Color   bool
	Unicode bool // bars and curves of block characters
	// Size is asked before each drawing: columns, at least 1, and rows, 0 if unknown.
	Size func() (columns, rows int)
	// PendingInput is the number of bytes of whole lines that were typed and that nobody has read yet;
	// nil where the system does not say.
	PendingInput func() int
}

// OpenTerminal says what f's terminal can do, and whether a View can be drawn on it at all:
// not on a file, nor with TERM=dumb. lookup is os.LookupEnv; NO_COLOR, CLICOLOR_FORCE and
// COLUMNS are obeyed.
func OpenTerminal(f *os.File, lookup func(string) (string, bool)) (Terminal, bool) {
	fd := int(f.Fd())
	if name, _ := lookup("TERM"); name == "" || name == "dumb" || !term.IsTerminal(fd) {
		return Terminal{}, false
	}
	t := Terminal{Color: true, Unicode: true, PendingInput: pendingInput(fd), Size: func() (columns, rows int) {
		columns, rows, err := term.GetSize(fd)
		if err != nil || columns < 1 {
			columns, rows = 80, 0
		}
		if v, ok := lookup("COLUMNS"); ok {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				columns = n
			}
		}
		return columns, rows
	}}
	if v, _ := lookup("NO_COLOR"); v != "" {
		t.Color = false
	}
	if v, _ := lookup("CLICOLOR_FORCE"); v != "" && v != "0" {
		t.Color = true
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v, _ := lookup(name); v != "" { // the first that is set decides; none says nothing
			v = strings.ToLower(v)
			t.Unicode = strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
			break
		}
	}
	return t, true
}
