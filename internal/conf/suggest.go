package conf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// OneOf refuses a value that is not among the choices, and suggests the nearest. A node's Validate adds
// the key, for the position of the value:
//
//	fmt.Errorf("train: lr_scheduler: %w", conf.OneOf(c.LRScheduler, schedules...))
func OneOf(value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return NotOneOf(value, choices...)
}

// NotOneOf returns the error of OneOf.
func NotOneOf(value string, choices ...string) error {
	return notOneOf(value, Nearest(value, choices), choices)
}

func notOneOf(value, near string, choices []string) error {
	text := fmt.Sprintf("%q is not one of %s", clip(value), strings.Join(choices, ", "))
	if near != "" {
		text += fmt.Sprintf(". did you mean %q?", near)
	}
	return errors.New(text)
}

// Nearest returns the candidate most similar to s, or "": the one with the smallest edit distance,
// preferring equal length, or else the only one with the prefix s.
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

// shortest is the minimum length of a prefix.
const shortest = 4

// SameName reports whether names differ in style alone: learningRate, learning-rate.
func SameName(a, b string) bool { return fold(a) == fold(b) }

// fold removes differences of style: learningRate, learning-rate.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance is the edit distance with transpositions (optimal string alignment) of a and b.
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
