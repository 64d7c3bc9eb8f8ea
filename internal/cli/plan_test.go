package cli_test

import (
	"encoding/json"

	"github.com/rogpeppe/go-internal/testscript"
)

// planned FILE compares planned and measured memory of every rank in a report of train.
func planned(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 && (len(args) != 2 || args[1] != "at-most") {
		ts.Fatalf("usage: planned FILE [at-most]")
	}
	follows := map[string]bool{"activations": len(args) == 2, "logits": len(args) == 2, "workspace": len(args) == 2, "total": len(args) == 2} // the rows
	var r struct {
		Planned map[string]int64
		Memory  []struct {
			Rank  int
			Peak  map[string]int64
			Total int64
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &r))
	if len(r.Memory) == 0 || r.Planned["parameters"] == 0 {
		ts.Fatalf("%s has no plan, or nothing measured", args[0])
	}
	for _, m := range r.Memory {
		m.Peak["total"] = m.Total
		for c, want := range r.Planned {
			if got := m.Peak[c]; got > want || got < want && !follows[c] {
				ts.Fatalf("%s: planned %d, rank %d measured %d", c, want, m.Rank, got)
			}
		}
	}
}
