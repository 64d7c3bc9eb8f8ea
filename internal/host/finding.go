package host

import "slices"

// State is the result of a check.
type State string

// The states. Only a problem fails a check.
const (
	OK      State = "ok"
	Note    State = "note"    // works, but may surprise
	Problem State = "problem" // a run fails, or is much slower
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"` // "disk"
	State State  `json:"state"`
	Text  string `json:"text"`
	Try   string `json:"try,omitempty"` // for a note or problem
}

// Problems returns the number of problems.
func Problems(all []Finding) (n int) {
	for _, f := range all {
		if f.State == Problem {
			n++
		}
	}
	return n
}

// Worst returns the worst state of all.
func Worst(all []Finding) State {
	worst := OK
	for _, f := range all {
		if rank(f.State) > rank(worst) {
			worst = f.State
		}
	}
	return worst
}

func rank(s State) int { return slices.Index([]State{OK, Note, Problem}, s) }
