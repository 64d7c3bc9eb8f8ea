package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"trireme/internal/cli"
	"trireme/planner"
)

// TestScalingPage checks the table of predicted communication in docs/scaling.md: the page's command with the links of
// each row. UPDATE=1 rewrites it.
func TestScalingPage(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "scaling.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const file, begin, end = "<!-- file: llama-3-8b/config.json -->\n```json\n", "<!-- table: TestScalingPage -->\n", "<!-- end -->\n"
	_, rest, ok := strings.Cut(string(text), file)
	config, _, closed := strings.Cut(rest, "```")
	head, rest, begins := strings.Cut(string(text), begin)
	old, tail, ends := strings.Cut(rest, end)
	if !ok || !closed || !begins || !ends {
		t.Fatal("docs/scaling.md lacks the model's file or the table's comments")
	}
	_, command, ok := strings.Cut(head[strings.Index(head, file):], "```sh\ntrireme ")
	command, _, _ = strings.Cut(strings.ReplaceAll(command, "\\\n", " "), " --network ")
	if !ok {
		t.Fatal("docs/scaling.md lacks the command before the table")
	}
	model := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(model, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	command = strings.Replace(command, "llama-3-8b/config.json", model, 1)
	var table strings.Builder
	table.WriteString("| hosts | links | communication | hidden | overhead | limit | overhead of 4 rows |\n|---|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		name, flags string
		worlds      []int
	}{
		{"nvlink4 in the host", "--link nvlink4", []int{8}},
		{"pcie5 in the host", "--link pcie5", []int{8}},
		{"pcie4 in the host", "--link pcie4", []int{8}},
		{"8 ndr per host", "--network ndr", []int{16, 64}},
		{"8 hdr per host", "--network hdr", []int{16, 64}},
		{"8 edr per host", "--network edr", []int{16, 64}},
		{"8 100gbe per host", "--network 100gbe", []int{16, 64}},
		{"1 ndr per host", "--network ndr --network_ports 1", []int{16, 64}},
		{"1 edr per host", "--network edr --network_ports 1", []int{16, 64}},
		{"1 100gbe per host", "--network 100gbe --network_ports 1", []int{16, 64}},
	} {
		one, four := predictions(t, command, "1", row.flags, row.worlds), predictions(t, command, "4", row.flags, row.worlds)
		for i, p := range one {
			fmt.Fprintf(&table, "| %d | %s | %.0f ms | %.0f%% | %.1f%% | %s | %.1f%% |\n", p.World/8, row.name, 1e3*p.Comm, 100*p.Overlap(), 100*p.Overhead(), p.Limit, 100*four[i].Overhead())
		}
	}
	if table.String() == old {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("the table of docs/scaling.md is\n%s\nbut plan predicts\n%s", old, table.String())
	}
	if err := os.WriteFile(page, []byte(head+begin+table.String()+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// predictions runs a plan with rows of a micro-batch, links and worlds.
func predictions(t *testing.T, command, rows, links string, worlds []int) []planner.Prediction {
	t.Helper()
	args := append(strings.Fields(command), "--json", "--micro_batch_size", rows)
	args = append(args, strings.Fields(links)...)
	for _, w := range worlds {
		args = append(args, "--worlds", strconv.Itoa(w))
	}
	var out, errs bytes.Buffer
	if code := cli.Main(args, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("%v ends with %d: %s", args, code, errs.String())
	}
	var r struct {
		Predicted struct{ Rows []planner.Prediction }
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Predicted.Rows) != len(worlds) {
		t.Fatalf("%v: %d rows, %v", args, len(r.Predicted.Rows), err)
	}
	return r.Predicted.Rows
}
