package view

import "strings"

// styles are escape sequences, all empty without color.
type styles struct {
	bold, dim, accent, warn, bad, good, reset string
	segments                                  map[string]string // of the time split by category
}

var colors = styles{
	bold: "\x1b[1m", dim: "\x1b[2m", accent: "\x1b[36m", warn: "\x1b[33m", bad: "\x1b[31m", good: "\x1b[32m", reset: "\x1b[0m",
	segments: map[string]string{
		"forward": "\x1b[36m", "backward": "\x1b[34m", "recompute": "\x1b[35m", "optimizer": "\x1b[32m", "program": "\x1b[36m",
		"comm": "\x1b[33m", "wait": "\x1b[31m", "data": "\x1b[31m", "offload": "\x1b[33m", "publish": "\x1b[33m", "other": "\x1b[2m",
	},
}

// bar adds a bar of n columns to the last item, filled by the fraction done.
func (r *row) bar(s styles, unicode bool, style string, done float64, n int) {
	full, empty := "━", "─"
	if !unicode {
		full, empty = "=", "-"
	}
	k := min(max(int(done*float64(n)), 0), n)
	r.add(style, s.reset, strings.Repeat(full, k)).add(s.dim, s.reset, strings.Repeat(empty, n-k))
}
