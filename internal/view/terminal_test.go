package view

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// terminal emulates a terminal with text, CR, LF, cursor up and erase to end of line. It panics on larger
// erasures.
type terminal struct {
	mu    sync.Mutex
	rows  [][]rune
	y, x  int
	bytes strings.Builder
	low   int           // rows that are seen, the last ones; 0: all
	stuck chan struct{} // not nil: writes wait for it
}

func (s *terminal) Write(p []byte) (int, error) {
	if s.stuck != nil {
		<-s.stuck
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes.Write(p)
	text := string(p)
	for len(text) > 0 {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			arg := rest[:end]
			switch rest[end] {
			case 'A':
				n, err := strconv.Atoi(arg)
				if err != nil {
					n = 1
				}
				top := 0
				if s.low > 0 {
					top = max(0, max(len(s.rows), s.y+1)-s.low)
				}
				s.y = max(top, s.y-n)
			case 'K':
				if s.y < len(s.rows) {
					s.rows[s.y] = s.rows[s.y][:min(s.x, len(s.rows[s.y]))]
				}
			case 'h', 'l', 'm':
			default:
				panic("unknown sequence " + rest[:end+1])
			}
			text = rest[end+1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		for s.y >= len(s.rows) {
			s.rows = append(s.rows, nil)
		}
		switch r {
		case '\r':
			s.x = 0
		case '\n':
			s.y++
		default:
			row := s.rows[s.y]
			for len(row) <= s.x {
				row = append(row, ' ')
			}
			row[s.x] = r
			s.rows[s.y], s.x = row, s.x+1
		}
	}
	return len(p), nil
}

func (s *terminal) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.rows {
		out = append(out, strings.TrimRight(string(r), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

func (s *terminal) waitFor(t *testing.T, text string) {
	t.Helper()
	for range 300 {
		if strings.Contains(s.String(), text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %q on\n%s", text, s)
}

// fixed is a constant terminal size.
func fixed(columns, rows int) func() (int, int) { return func() (int, int) { return columns, rows } }

func TestOpenTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lookup := func(vars map[string]string) func(string) (string, bool) {
		return func(k string) (string, bool) { v, ok := vars[k]; return v, ok }
	}
	if _, ok := OpenTerminal(f, lookup(map[string]string{"TERM": "xterm"})); ok {
		t.Error("a file was taken for a terminal")
	}
	pty, err := openPTY()
	if err != nil {
		t.Skip("no pseudo-terminal here:", err)
	}
	defer pty.Close()
	if _, ok := OpenTerminal(pty, lookup(map[string]string{"TERM": "dumb"})); ok {
		t.Error("a view on TERM=dumb")
	}
	for _, c := range []struct {
		vars           map[string]string
		color, unicode bool
		width          int
	}{
		{map[string]string{"TERM": "xterm", "COLUMNS": "97", "NO_COLOR": "1"}, false, true, 97},
		{map[string]string{"TERM": "xterm", "COLUMNS": "5", "LANG": "C"}, true, false, 5},
		{map[string]string{"TERM": "xterm", "COLUMNS": "x", "LC_ALL": "en_GB.UTF-8", "LANG": "C", "NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, true, true, 80},
	} {
		tm, ok := OpenTerminal(pty, lookup(c.vars))
		if width, rows := tm.Size(); !ok || tm.Color != c.color || tm.Unicode != c.unicode || width != c.width || rows != 0 {
			t.Errorf("%v: %v %+v %d x %d", c.vars, ok, tm, width, rows)
		}
	}
}

// openPTY opens a new pseudo-terminal without a size.
func openPTY() (*os.File, error) { return os.OpenFile("/dev/ptmx", os.O_RDWR, 0) }
