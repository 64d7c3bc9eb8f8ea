package view

// key is a key of the watching user.
type key int

const (
	keyOther key = iota
	keyQuit
	keyKeys // shows the keys
	keyTab
	keyBackTab
	keyLeft
	keyRight
	keyUp
	keyDown
	keyRedraw
	keyRun  // the next run
	keyPane // keyPane + n: pane n
)

// parseKeys returns the keys of typed bytes. Unknown sequences are keyOther, once.
func parseKeys(b []byte) (keys []key) {
	for len(b) > 0 {
		k, n := parseKey(b)
		keys, b = append(keys, k), b[n:]
	}
	return keys
}

func parseKey(b []byte) (key, int) {
	switch c := b[0]; {
	case c == 0x1b && len(b) > 1 && (b[1] == '[' || b[1] == 'O'):
		n := 2
		for n < len(b) && (b[n] < 0x40 || b[n] > 0x7e) { // parameters
			n++
		}
		if n == len(b) {
			return keyOther, n
		}
		if n == 2 {
			switch b[n] {
			case 'A':
				return keyUp, 3
			case 'B':
				return keyDown, 3
			case 'C':
				return keyRight, 3
			case 'D':
				return keyLeft, 3
			case 'Z':
				return keyBackTab, 3
			}
		}
		return keyOther, n + 1
	case c == 'q' || c == 'Q' || c == 3:
		return keyQuit, 1
	case c == '?':
		return keyKeys, 1
	case c == '\t':
		return keyTab, 1
	case c == ']':
		return keyRight, 1
	case c == '[':
		return keyLeft, 1
	case c == 'n':
		return keyRun, 1
	case c == 0x0c:
		return keyRedraw, 1
	case c >= '1' && c < '1'+byte(panes):
		return keyPane + key(c-'1'), 1
	}
	return keyOther, 1
}
