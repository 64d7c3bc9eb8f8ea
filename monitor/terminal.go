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
	// Width is asked before each drawing: columns, at least 20.
	Width func() int
}

// OpenTerminal says what f's terminal can do, and whether a View can be drawn on it at all:
// not on a file, nor with TERM=dumb. lookup is os.LookupEnv; NO_COLOR, CLICOLOR_FORCE and
// COLUMNS are obeyed.
func OpenTerminal(f *os.File, lookup func(string) (string, bool)) (Terminal, bool) {
	fd := int(f.Fd())
	if name, _ := lookup("TERM"); name == "" || name == "dumb" || !term.IsTerminal(fd) {
		return Terminal{}, false
	}
	t := Terminal{Color: true, Unicode: true, Width: func() int {
		if v, ok := lookup("COLUMNS"); ok {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				return max(n, 20)
			}
		}
		if n, _, err := term.GetSize(fd); err == nil && n > 0 {
			return max(n, 20)
		}
		return 80
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
