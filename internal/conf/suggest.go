package conf

import "strings"

// Nearest is the candidate that s was probably meant to be, or "" if none is near.
func Nearest(s string, candidates []string) string {
	best, at := "", max(1, len(s)/3)+1
	for _, c := range candidates {
		d := distance(s, c)
		if fold(s) == fold(c) {
			d = 0
		}
		if d < at {
			best, at = c, d
		}
	}
	return best
}

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
