package cli

import (
	"slices"
	"strings"
	"testing"
)

// FuzzWhere gives a filter any text: it is refused in one line, or it judges any facts and names what it compares.
func FuzzWhere(f *testing.F) {
	for _, text := range []string{
		"", "loss<2.0", "training.learning_rate<1e-4 and loss<2.0", `not (name = "a b" or state != 'done') and dir ~ out.*`,
		"loss <", "(loss<2", "loss<2)", "loss ~ [", `name = "`, "= = =", "a = (", "or or or", "not not not a=b", strings.Repeat("(", 5000), "loss<nan",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		where, err := parseWhere(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: more than a line: %v", text, err)
			}
			return
		}
		for _, name := range where.names {
			if name == "" || !strings.Contains(text, name) || strings.ContainsAny(name, `()<>=!~"'`) {
				t.Fatalf("%q: the name %q", text, name)
			}
		}
		if strings.TrimSpace(text) != "" && len(where.names) == 0 {
			t.Fatalf("%q: a filter without a name", text)
		}
		for _, value := range []string{"", "1", "-2e300", "NaN", "text"} {
			all := facts{}
			for _, name := range where.names {
				all[name] = value
			}
			if first := where.keep(all); first != where.keep(all) {
				t.Fatalf("%q: two answers for %q", text, value)
			}
		}
		where.keep(facts{})
	})
}

func TestWhereNames(t *testing.T) {
	where, err := parseWhere(`not (b.c >= 1 or a ~ "x y") and d != 'z'`)
	if want := []string{"b.c", "a", "d"}; err != nil || !slices.Equal(where.names, want) {
		t.Errorf("names %v, %v; want %v", where.names, err, want)
	}
	for facts, want := range map[[3]string]bool{
		{"0", "q", "y"}: true, {"1", "q", "y"}: false, {"0", "x y", "y"}: false, {"0", "q", "z"}: false,
	} {
		if got := where.keep(map[string]string{"b.c": facts[0], "a": facts[1], "d": facts[2]}); got != want {
			t.Errorf("%v: %v, want %v", facts, got, want)
		}
	}
}
