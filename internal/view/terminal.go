package view

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Terminal describes the terminal a View draws on.
type Terminal struct {
	Color   bool
	Unicode bool // block characters are available
	// Size returns columns, at least 1, and rows, 0 if unknown. It is called before each drawing.
	Size func() (columns, rows int)
	// PendingInput returns the number of bytes of typed lines not yet read; nil if unknown.
	PendingInput func() int
}

// OpenTerminal describes the terminal of f; false if f is no terminal or TERM is dumb. lookup is
// os.LookupEnv. NO_COLOR, CLICOLOR_FORCE and COLUMNS apply.
func OpenTerminal(f *os.File, lookup func(string) (string, bool)) (Terminal, bool) {
	fd := int(f.Fd())
	if name, _ := lookup("TERM"); name == "" || name == "dumb" || !term.IsTerminal(fd) {
		return Terminal{}, false
	}
	t := describe(lookup, func() (columns, rows int, err error) { return term.GetSize(fd) })
	t.Color, t.PendingInput = t.Color || !set(lookup, "NO_COLOR"), pendingInput(fd)
	return t, true
}

// PlainTerminal describes output that is no terminal: without color except by CLICOLOR_FORCE, of the given size except
// by COLUMNS. lookup is os.LookupEnv.
func PlainTerminal(lookup func(string) (string, bool), columns, rows int) Terminal {
	return describe(lookup, func() (int, int, error) { return columns, rows, nil })
}

func set(lookup func(string) (string, bool), name string) bool {
	v, _ := lookup(name)
	return v != ""
}

func describe(lookup func(string) (string, bool), size func() (int, int, error)) Terminal {
	force, _ := lookup("CLICOLOR_FORCE")
	t := Terminal{Color: force != "" && force != "0", Unicode: true, Size: func() (columns, rows int) {
		columns, rows, err := size()
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
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v, _ := lookup(name); v != "" { // the first that is set decides
			v = strings.ToLower(v)
			t.Unicode = strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
			break
		}
	}
	return t
}
