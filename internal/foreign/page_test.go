package foreign

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// page is the documentation with the tables of the vocabularies. UPDATE=1 writes them.
const page = "../../docs/files-of-other-programs.md"

// TestPage checks that the tables of the page are up to date.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for _, f := range formats() {
		start, end := fmt.Sprintf("<!-- table %s -->\n", f.name), fmt.Sprintf("<!-- end %s -->\n", f.name)
		before, rest, ok := strings.Cut(want, start)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no marker for the table of %s", page, f.name)
		}
		want = before + start + table(f) + end + after
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(text)); d != "" {
		t.Errorf("the tables are not those of the vocabularies (UPDATE=1 writes them):\n%s", d)
	}
}

// table has a row for each set of keys of a group with the same effect.
func table(f *format) string {
	var b strings.Builder
	b.WriteString("| key | becomes |\n|---|---|\n")
	var walk func(path string, ks keys)
	walk = func(path string, ks keys) {
		rows := map[string][]string{} // by what is said
		var order, groups []string
		for _, name := range ks.names() {
			rule := ks[name]
			if rule.under != nil {
				groups = append(groups, name)
				continue
			}
			if rows[rule.doc] == nil {
				order = append(order, rule.doc)
			}
			rows[rule.doc] = append(rows[rule.doc], "`"+name+"`")
		}
		for _, says := range order {
			names := strings.Join(rows[says], ", ")
			if path != "" {
				names = "**" + path + "** " + names
			}
			fmt.Fprintf(&b, "| %s | %s |\n", names, says)
		}
		for _, name := range groups {
			below := name
			if path != "" {
				below = path + "." + name
			}
			walk(below, ks[name].under)
		}
	}
	walk("", f.keys)
	return b.String()
}
