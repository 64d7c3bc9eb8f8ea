package conf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// OneOf refuses a value that is none of the choices: it lists them and suggests the nearest. A
// node's Validate puts the key before it, so that it is placed where the value was set:
//
//	fmt.Errorf("train: lr_scheduler: %w", conf.OneOf(c.LRScheduler, schedules...))
func OneOf(value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return NotOneOf(value, choices...)
}

// NotOneOf is the error of OneOf, for a caller that has looked already.
func NotOneOf(value string, choices ...string) error {
	text := fmt.Sprintf("%q is not one of %s", clip(value), strings.Join(choices, ", "))
	if near := Nearest(value, choices); near != "" {
		text += fmt.Sprintf(". did you mean %q?", near)
	}
	return errors.New(text)
}

// Nearest is the candidate that s was probably meant to be, or "" if none is near: the one with the
// fewest letters that differ, of its length where it can be, or else the only one that begins with s.
func Nearest(s string, candidates []string) string {
	best, at := "", max(1, len(s)/3)+1
	var longer []string
	for _, c := range candidates {
		d := distance(s, c)
		if fold(s) == fold(c) {
			d = 0
		}
		if d < at || d == at && best != "" && len(c) == len(s) && len(best) != len(s) {
			best, at = c, d
		}
		if strings.HasPrefix(fold(c), fold(s)) {
			longer = append(longer, c)
		}
	}
	if best == "" && len(s) >= shortest && len(longer) == 1 {
		best = longer[0]
	}
	return best
}

// shortest is the number of letters from which on a text may be the beginning of a name.
const shortest = 4

// fold removes the differences of spelling style: learningRate, learning-rate.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance counts the letters to insert, delete, replace or swap with their neighbour
// (optimal string alignment) between a and b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > 100 || len(y) > 100 {
		return max(len(x), len(y))
	}
	before, prev, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, prev[j]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(y)]
}
