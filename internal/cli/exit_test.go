package cli

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// The README and the help explain each exit code, and no other.
func TestExitCodesAreExplained(t *testing.T) {
	want := []int{CodeDone, CodeFailed, CodeUsage, CodeNo, CodeAuth, CodeStopped, CodePeerLost, CodeInterrupted, CodeCrashed, CodeTerminated}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := func(rows [][]string) (codes []int) {
		for _, row := range rows {
			for _, digits := range regexp.MustCompile(`\d+`).FindAllString(row[1], -1) {
				n, err := strconv.Atoi(digits)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, n)
			}
		}
		slices.Sort(codes)
		return codes
	}
	if got := explained(regexp.MustCompile(`(?m)^\| (\d+(?:, \d+)*) \| `).FindAllStringSubmatch(string(readme), -1)); !slices.Equal(got, want) {
		t.Errorf("README explains %v, not %v", got, want)
	}
	help := regexp.MustCompile(`(?s)Exit codes: .*`).FindString(newRoot().Long)
	if got := explained(regexp.MustCompile(`(\d+(?:, \d+)*) [a-z]`).FindAllStringSubmatch(help, -1)); !slices.Equal(got, want) {
		t.Errorf("the help explains %v, not %v", got, want)
	}
}
